"""A problem: a prompt, what its answer is checked against, and metadata."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from hanse.recipe.tasks import RewardSpec
from hanse.tasks.vocabulary import Vocabulary

if TYPE_CHECKING:
    from hanse.tasks.lessons import Lessons

Split = Literal["train", "validation", "held_out"]
Message = Mapping[str, str]
Prompt = str | Sequence[Message]
"""Plain text, or chat messages ({"role", "content"}) for the model's chat template."""


@dataclass(frozen=True)
class Problem:
    """`id` is stable across runs and unique in its task; `metadata` reaches reward functions as columns."""

    id: str
    prompt: Prompt
    answer: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Task(Protocol):
    """A source of problems, with the rewards that it brings along."""

    @property
    def name(self) -> str: ...

    @property
    def default_rewards(self) -> Sequence[RewardSpec]:
        """Used when the recipe names no reward."""
        ...

    @property
    def vocabulary(self) -> Vocabulary | None:
        """Of the tiny policy; None: it cannot learn this task."""
        ...

    @property
    def lessons(self) -> Lessons | None:
        """What the tiny policy is taught before a run; None: sums, as `policy.warmup` says."""
        ...

    def problems(self, split: Split) -> Sequence[Problem]:
        """All problems of a split, in a fixed order. The three splits never share a problem."""
        ...


def split_of(key: str, held_out_fraction: float, validation_fraction: float) -> Split:
    """The split of a problem, by a hash of `key` alone: stable whatever else the data set holds."""
    position = zlib.crc32(key.encode()) / 2**32
    if position < held_out_fraction:
        return "held_out"
    if position < held_out_fraction + validation_fraction:
        return "validation"
    return "train"
