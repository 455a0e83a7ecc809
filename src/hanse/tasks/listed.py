"""A task whose problems are all at hand, already split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hanse.errors import RecipeError
from hanse.recipe.tasks import RewardSpec
from hanse.tasks.lessons import Lessons
from hanse.tasks.problem import Problem, Split
from hanse.tasks.vocabulary import Vocabulary

Splits = Mapping[Split, tuple[Problem, ...]]


@dataclass(frozen=True)
class ListedTask:
    """The usual `Task`: a name, the rewards it brings along, and the problems of each split; for the tiny
    policy also a vocabulary, and perhaps lessons."""

    name: str
    default_rewards: tuple[RewardSpec, ...]
    splits: Splits
    vocabulary: Vocabulary | None = None
    lessons: Lessons | None = None

    def problems(self, split: Split) -> tuple[Problem, ...]:
        return self.splits[split]


def gather(assigned: Iterable[tuple[Split, Problem]]) -> dict[Split, tuple[Problem, ...]]:
    """Problems by split, in the order in which they come."""
    lists: dict[Split, list[Problem]] = {"train": [], "validation": [], "held_out": []}
    for split, problem in assigned:
        lists[split].append(problem)
    return {split: tuple(problems) for split, problems in lists.items()}


def refuse_empty(splits: Splits, what: str, held_out_field: str = "task.held_out_fraction") -> None:
    """Raise RecipeError if nobody could train, or nothing could be evaluated."""
    total = sum(len(problems) for problems in splits.values())
    if not splits["train"]:
        raise RecipeError(
            "task",
            f"{what} has {total} distinct problems, and none of them is left for training.",
            "Add problems, or lower task.held_out_fraction and task.validation_fraction.",
        )
    if not splits["held_out"]:
        raise RecipeError(
            held_out_field,
            f"{what} has {total} distinct problems, and none of them is held out for evaluation.",
            "Add problems, raise task.held_out_fraction, or name held-out problems of their own.",
        )
