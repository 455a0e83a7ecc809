"""The `[reward_only]` part of a recipe, of mode "reward-only" (FedGRPO, 2602.12014)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

from hanse.errors import RecipeError
from hanse.recipe.preferences import PREFERENCE_TASKS
from hanse.recipe.section import Section

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe


class RewardOnlySpec(Section):
    """The server trains, and clients score its candidates (docs/methods/fedgrpo.md).

    `choice`: which `experts` clients are asked about a question. "competence": the server has the answers of
    `auxiliary` problems, every client answers them once, and those who got most of the `nearest` right are
    asked; `ngram`, `width`: of the hashed counts that nearness is told by. "random": any, drawn once a
    question, and nobody is examined. `own_steps`: GRPO steps that a client's own model takes on its problems
    before anything else. `models`: a folder for each client, of the reward model that it trained (mode
    "reward-model"), by which it then scores questions that it does not own. `low`, `high`: what a score may
    be; a reply beyond that is refused whole.
    """

    choice: Literal["competence", "random"] = "competence"
    auxiliary: int = Field(default=100, ge=1, le=1 << 16)
    nearest: int = Field(default=20, ge=1)
    experts: int = Field(default=2, ge=1)
    ngram: int = Field(default=3, ge=1, le=8)
    width: int = Field(default=4096, ge=16, le=1 << 20)
    own_steps: int = Field(default=0, ge=0)
    models: list[str] | None = None
    low: float = 0.0
    high: float = 1.0


_OF_COMPETENCE = ("auxiliary", "nearest", "ngram", "width")
_REFUSED = tuple[str, str, str]


def check_reward_only(recipe: Recipe) -> None:
    """Numbers that fit, and nothing beside it that needs updates or the server's own truth."""
    if recipe.mode != "reward-only":
        return
    found = (*_numbers(recipe), *_inert(recipe), *_learner(recipe), *_truth(recipe))
    if found:
        raise RecipeError(*found[0])


def notes(recipe: Recipe) -> Iterator[str]:
    """Advice: the section is read in one mode."""
    changed = [] if recipe.mode == "reward-only" else _changed(recipe.reward_only)
    if changed:
        yield f'reward_only.{", ".join(changed)}: no effect with mode = "{recipe.mode}".'


def _numbers(recipe: Recipe) -> Iterator[_REFUSED]:
    spec, clients = recipe.reward_only, recipe.partition.clients
    if spec.experts > clients:
        problem = f"{spec.experts} of {clients} clients (partition.clients)."
        yield "reward_only.experts", problem, f"Use {clients} or fewer."
    if spec.nearest > spec.auxiliary:
        problem = f"{spec.nearest} of {spec.auxiliary} problems (reward_only.auxiliary)."
        yield "reward_only.nearest", problem, f"Use {spec.auxiliary} or fewer."
    if spec.low >= spec.high:
        problem = f"{spec.high:g} is not above low = {spec.low:g}."
        yield "reward_only.high", problem, "Use low = 0 and high = 1 for right or wrong."
    if spec.models is not None and len(spec.models) != clients:
        problem = f"{len(spec.models)} folders for {clients} clients (partition.clients)."
        yield "reward_only.models", problem, "Name one a client, in their order."


def _inert(recipe: Recipe) -> Iterator[_REFUSED]:
    """Sections and keys that nothing here would read."""
    sections = {"federation": recipe.federation, "swarm": recipe.swarm, "reward_model": recipe.reward_model}
    for name, section in sections.items():
        for key in _changed(section):
            problem = 'has no effect with mode = "reward-only": no update, completion or pair is exchanged.'
            yield f"{name}.{key}", problem, "Leave it out."
    if recipe.reward_only.models is not None and recipe.reward_only.own_steps:
        problem = "has no effect with models: clients score by their reward models, and no other trains."
        yield "reward_only.own_steps", problem, "Leave one of the two out."
    if recipe.reward_only.choice == "random":
        for key in _changed(recipe.reward_only):
            if key in _OF_COMPETENCE:
                problem = 'has no effect with choice = "random": nobody is examined.'
                yield f"reward_only.{key}", problem, 'Leave it out, or use choice = "competence".'


def _learner(recipe: Recipe) -> Iterator[_REFUSED]:
    """What works on rewards one by one, or on what the server would have to remember of its questions."""
    grpo = recipe.grpo
    for name, given in {
        "grpo.shaping": grpo.shaping.enabled,
        "grpo.reward_weights": grpo.reward_weights.apart,
        "adversary.clients": bool(recipe.adversary.clients),
    }.items():
        if given:
            problem = 'has nothing to work on with mode = "reward-only": single scores come back.'
            yield name, problem, "Leave it out."
    if grpo.allocation != "uniform":
        problem = 'predicts variances of a client\'s own problems, and with mode = "reward-only" none trains.'
        yield "grpo.allocation", problem, 'Use "uniform".'


def _truth(recipe: Recipe) -> Iterator[_REFUSED]:
    """Answers are compared, so there are answers."""
    if recipe.task.type in PREFERENCE_TASKS:
        problem = f'clients compare answers, and the task "{recipe.task.type}" has none.'
        yield "task.type", problem, "Use a task with answers."
    for i, reward in enumerate(recipe.rewards):
        if reward.type == "reward-model":
            problem = "a reward model has no bounds, and is one client's; rewards are for owners of answers."
            remedy = "Name one folder a client in reward_only.models instead."
            yield f"rewards.{i}.type", problem, remedy
        if reward.name == "length":
            problem = "it counts tokens, and candidates reach clients as text."
            yield (
                f"rewards.{i}.name",
                problem,
                "Leave it out, or reward short texts by a function of your own.",
            )


def _changed(section: BaseModel) -> list[str]:
    """The keys of a section that are not as they are by default, in its order."""
    default = type(section)()
    return [name for name in type(section).model_fields if getattr(section, name) != getattr(default, name)]
