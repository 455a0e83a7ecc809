"""`[grpo.reward_weights]`: several rewards, each compared within groups by itself (FedMOA, 2602.00453)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from hanse.errors import RecipeError
from hanse.recipe.section import Section

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe


class RewardWeightsSpec(Section):
    """How several rewards become one advantage (docs/methods/fedmoa.md).

    "sum": rewards are added up by their weights, then compared. "fixed": each reward is compared by itself,
    and advantages are added up by the recipe's weights. "hypergradient": those weights start there and move
    towards rewards whose gradient goes the way of the `primary` one's (its place among the rewards that have
    a weight), none below `floor`. `rate`: how fast; `every`: steps between two looks at gradients.
    """

    type: Literal["sum", "fixed", "hypergradient"] = "sum"
    primary: int = Field(default=0, ge=0)
    floor: float = Field(default=0.02, ge=0, le=0.5)
    rate: float = Field(default=0.2, gt=0, le=10)
    every: int = Field(default=1, ge=1)

    @property
    def apart(self) -> bool:
        """Whether rewards are compared one by one."""
        return self.type != "sum"


def check_reward_weights(recipe: Recipe) -> None:
    """What makes advantages of one sum of rewards cannot be had beside this."""
    spec, grpo, field = recipe.grpo.reward_weights, recipe.grpo, "grpo.reward_weights.type"
    if not spec.apart:
        return
    others = {
        "privacy.enabled": recipe.privacy.enabled,
        'mode = "swarm"': recipe.mode == "swarm",
        "grpo.shaping": grpo.shaping.enabled,
        f'grpo.screening = "{grpo.screening}"': grpo.screening != "none",
        'grpo.objective = "rloo" with beta': grpo.objective == "rloo" and grpo.beta > 0,
        f'adversary.trains = "{recipe.adversary.trains}"': recipe.adversary.trains != "honestly",
    }
    for name, given in others.items():
        if given:
            problem = f'"{spec.type}" compares rewards one by one, and {name} works on their sum.'
            raise RecipeError(field, problem, f'Leave {name} out, or use type = "sum".')
    counted = sum(reward.weight != 0 for reward in recipe.rewards)
    if recipe.rewards and spec.primary >= counted:
        problem = f"{spec.primary}, and there are {counted} rewards with a weight, counted from 0."
        raise RecipeError("grpo.reward_weights.primary", problem, "Use 0 for the first.")
    if recipe.rewards and spec.floor * counted >= 1:
        problem = f"{counted} rewards with {spec.floor:g} each leave nothing to move."
        remedy = f"Use floor = {0.5 / counted:.2g} or less."
        raise RecipeError("grpo.reward_weights.floor", problem, remedy)
    if counted < 2:
        problem = f'"{spec.type}" weighs rewards against each other, and there is one.'
        raise RecipeError(field, problem, 'Add [[rewards]] with a weight, or use type = "sum".')


def notes(recipe: Recipe) -> Iterator[str]:
    """Advice: what moves weights where none moves."""
    spec, plain = recipe.grpo.reward_weights, RewardWeightsSpec()
    if spec.type == "hypergradient":
        return
    for name in ("primary", "floor", "rate", "every"):
        if getattr(spec, name) != getattr(plain, name):
            yield f'grpo.reward_weights.{name} has no effect with type = "{spec.type}".'
