"""The `[reward_only]` part of a recipe, of mode "reward-only" (FedGRPO, 2602.12014)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from hanse.errors import RecipeError
from hanse.recipe.section import Section

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe


class RewardOnlySpec(Section):
    """The server trains, and clients score its candidates (docs/methods/fedgrpo.md).

    `auxiliary`: problems whose answers the server has; every client answers them once, and is asked about a
    question by how many of the `nearest` it got right, the best `experts` of them. `ngram`, `width`: of the
    hashed counts that nearness is told by. `own_steps`: GRPO steps that a client's own model takes on its
    problems before anything else. `low`, `high`: what a score may be; a reply beyond that is refused whole.
    """

    auxiliary: int = Field(default=100, ge=1)
    nearest: int = Field(default=20, ge=1)
    experts: int = Field(default=2, ge=1)
    ngram: int = Field(default=3, ge=1, le=8)
    width: int = Field(default=4096, ge=16, le=1 << 20)
    own_steps: int = Field(default=0, ge=0)
    low: float = 0.0
    high: float = 1.0


def check_reward_only(recipe: Recipe) -> None:
    """Numbers that fit, and nothing beside it that needs updates or the server's own truth."""
    if recipe.mode != "reward-only":
        return
    spec, clients = recipe.reward_only, recipe.partition.clients
    if spec.experts > clients:
        problem = f"{spec.experts} of {clients} clients (partition.clients)."
        raise RecipeError("reward_only.experts", problem, f"Use {clients} or fewer.")
    if spec.nearest > spec.auxiliary:
        problem = f"{spec.nearest} of {spec.auxiliary} problems (reward_only.auxiliary)."
        raise RecipeError("reward_only.nearest", problem, f"Use {spec.auxiliary} or fewer.")
    if spec.low >= spec.high:
        problem = f"{spec.high:g} is not above low = {spec.low:g}."
        raise RecipeError("reward_only.high", problem, "Use low = 0 and high = 1 for right or wrong.")
    grpo = recipe.grpo
    for name, given in {
        "grpo.shaping": grpo.shaping.enabled,
        "grpo.reward_weights": grpo.reward_weights.apart,
        "adversary.clients": bool(recipe.adversary.clients),
    }.items():
        if given:
            problem = 'has nothing to work on with mode = "reward-only": single scores come back.'
            raise RecipeError(name, problem, "Leave it out.")
