"""`[federation.public]`: problems that all clients train on together (PubSwap, 2604.12160)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from hanse.errors import RecipeError
from hanse.recipe.section import Section

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe

FIELD = "federation.public"
_REFUSED = tuple[str, str, str]


class PublicSpec(Section):
    """Public steps: wrong answers give way to peers' correct ones (docs/methods/pubswap.md).

    `problems`: how many of the task's training problems are public, held back from all clients, as many of
    each level as go; or `path`, a file of rows like the task's. Neither: no public step. `every`: how many
    rounds apart public steps are (0: there is none, and nothing is held back). `per_round`: problems of one.

    `most`: answers of a group that may be replaced (0: all are the client's own, and nothing travels);
    `below`: only in groups of which less than this share is correct; `correct`: the reward from which on an
    answer is. `typical_z`: a peer's answer weighs less from so many standard deviations of surprise on.
    """

    problems: int | None = Field(default=None, ge=1)
    path: str | None = None
    every: int = Field(default=1, ge=0)
    per_round: int = Field(default=32, ge=1, le=1 << 16)
    most: int = Field(default=2, ge=0, le=1 << 10)
    below: float = Field(default=0.5, gt=0, le=1)
    correct: float = 1.0
    typical_z: float = Field(default=3.0, ge=0)

    @property
    def on(self) -> bool:
        """Whether there are public steps."""
        return self.every > 0 and (self.problems is not None or self.path is not None)

    def due(self, round: int) -> bool:
        """Whether round `round`, from 1, ends with a public step."""
        return self.on and round % self.every == 0

    def swaps(self, round: int) -> bool:
        """Whether answers travel in it."""
        return self.due(round) and self.most > 0

    def steps(self, rounds: int) -> int:
        """Public steps of so many rounds."""
        return rounds // self.every if self.on else 0


def check_public(recipe: Recipe) -> None:
    """Public problems from one source, numbers that fit, and nothing that a public step would undo."""
    if not recipe.federation.public.on:
        return
    for refused in (*_place(recipe), *_numbers(recipe), *_pairs(recipe)):
        raise RecipeError(*refused)


def _place(recipe: Recipe) -> Iterator[_REFUSED]:
    spec = recipe.federation.public
    if recipe.mode != "federated":
        problem = f'clients share answers, and mode = "{recipe.mode}" has none that exchange anything.'
        yield FIELD, problem, f'Set mode = "federated", or {FIELD}.every = 0.'
    if recipe.runtime.elsewhere:
        yield (
            "runtime.type",
            f'"{recipe.runtime.type}" keeps no client between two messages of a round that shares answers.',
            f'Use runtime.type = "local", or leave {FIELD} out.',
        )
    if spec.problems is not None and spec.path is not None:
        problem = "public problems come from one source, not from two."
        yield f"{FIELD}.path", problem, "Keep problems, or path."


def _numbers(recipe: Recipe) -> Iterator[_REFUSED]:
    spec, grpo = recipe.federation.public, recipe.grpo
    if spec.problems is not None and spec.per_round > spec.problems:
        problem = f"{spec.per_round} of {spec.problems} public problems ({FIELD}.problems)."
        yield f"{FIELD}.per_round", problem, f"Use {spec.problems} or fewer."
    if spec.most > grpo.group_size:
        problem = f"{spec.most} of the {grpo.group_size} answers of a group (grpo.group_size)."
        yield f"{FIELD}.most", problem, f"Use {grpo.group_size // 2} or fewer, so that groups stay own ones."
    if spec.per_round % grpo.mini_batches:
        problem = f"{spec.per_round} problems do not divide into {grpo.mini_batches} (grpo.mini_batches)."
        yield (
            f"{FIELD}.per_round",
            problem,
            f"Use {grpo.mini_batches * -(-spec.per_round // grpo.mini_batches)}.",
        )
    bounds = recipe.federation.screening.reward_range
    if bounds is not None and spec.correct > bounds[1]:
        problem = f"no reward is {spec.correct:g} (federation.screening.reward_range ends at {bounds[1]:g})."
        yield f"{FIELD}.correct", problem, f"Use {bounds[1]:g}, or less."
    if spec.most and recipe.partition.clients < 2:
        yield f"{FIELD}.most", "one client has no peers (partition.clients).", f"Set {FIELD}.most = 0."


def _pairs(recipe: Recipe) -> Iterator[_REFUSED]:
    """What has no public step beside it, and why."""
    without = f"Leave it out, or {FIELD}."
    if recipe.privacy.enabled:
        problem = f"no account covers the answers that {FIELD} shows to others."
        yield "privacy.enabled", problem, without
    if recipe.federation.secure.enabled:
        problem = f"hides updates, and {FIELD} shows answers of single clients."
        yield "federation.secure.enabled", problem, without
    for field, given, problem in (
        (
            "adversary.clients",
            bool(recipe.adversary.clients),
            "the attacks of studies know no shared answers.",
        ),
        ("grpo.shaping", recipe.grpo.shaping.enabled, "shapes own answers, and a public group is mixed."),
        ("grpo.reward_weights", recipe.grpo.reward_weights.apart, "a swapped answer has one reward."),
    ):
        if given:
            yield field, problem, without
