"""Sums in five levels of difficulty, for the tiny policy.

`abc+def=` with operands padded to three digits; the answer has four. Levels by operands and carries:
1: both at most 99, no carry. 2: both at most 99, one carry, in the units. 3: both 100-999, no carry.
4: both 100-999, one carry. 5: both 100-999, two carries or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from hanse.randomness import derive_seed
from hanse.recipe.tasks import ArithmeticTask, RewardSpec
from hanse.tasks.listed import ListedTask, gather
from hanse.tasks.problem import Problem, Split, split_of
from hanse.tasks.vocabulary import Vocabulary

CHARSET = "0123456789+="
"""All characters of prompts and answers."""
VOCABULARY = Vocabulary(tuple(CHARSET), "characters")

HELD_OUT_FRACTION = 0.2
VALIDATION_FRACTION = 0.1
PROBLEMS_PER_LEVEL = 4000
"""Of larger levels, this many pairs of operands, always the same ones."""

Pairs = npt.NDArray[np.int64]


def build_arithmetic(spec: ArithmeticTask) -> ListedTask:
    """Levels 1 to `spec.levels`. A sum and its mirror image (a+b, b+a) are always in the same split."""
    by_level = _pairs_by_level()[: spec.levels]
    assigned = (item for level, pairs in enumerate(by_level, 1) for item in _problems(level, pairs, spec))
    splits = gather(_cut(assigned, spec.train_counts))
    return ListedTask("arithmetic", (RewardSpec(name="exact"),), splits, VOCABULARY)


def _cut(
    assigned: Iterable[tuple[Split, Problem]], counts: Sequence[int] | None
) -> Iterator[tuple[Split, Problem]]:
    """Without the training problems beyond each level's count: those with the largest hashes."""
    kept = list(assigned)
    if counts is None:
        yield from kept
        return
    training = sorted((derive_seed("training", p.id), p.id) for split, p in kept if split == "train")
    left = dict(enumerate(counts, 1))
    level_of = {p.id: p.metadata["level"] for _, p in kept}
    chosen = set[str]()
    for _, name in training:
        if left.get(level_of[name], 0) > 0:
            left[level_of[name]] -= 1
            chosen.add(name)
    yield from ((split, p) for split, p in kept if split != "train" or p.id in chosen)


def _problems(level: int, pairs_N2: Pairs, spec: ArithmeticTask) -> Iterator[tuple[Split, Problem]]:
    step = -1 if spec.order == "least-significant-first" else 1
    for a, b in pairs_N2.tolist():
        split = split_of(f"{min(a, b)}+{max(a, b)}", HELD_OUT_FRACTION, VALIDATION_FRACTION)
        answer = f"{a + b:04d}"[::step]
        metadata = {"level": level, "operands": [a, b]}
        yield split, Problem(f"{a}+{b}", f"{a:03d}+{b:03d}=", answer, metadata)


def _pairs_by_level() -> list[Pairs]:
    """Ordered pairs of operands, at most PROBLEMS_PER_LEVEL a level, each of shape (N, 2), sorted."""
    few, many = _carries(0, 100), _carries(100, 1000)
    units = np.arange(100) % 10
    in_units = units[:, None] + units > 9
    chosen = (
        np.argwhere(few == 0),
        np.argwhere((few == 1) & in_units),
        np.argwhere(many == 0) + 100,
        np.argwhere(many == 1) + 100,
        np.argwhere(many >= 2) + 100,
    )
    return [_sample(pairs) for pairs in chosen]


def _carries(low: int, high: int) -> npt.NDArray[np.int16]:
    """How many digits of a + b carry, for all a, b from `low` to below `high`: each costs 9 in digit sums."""
    digit_sums = np.array([sum(map(int, str(n))) for n in range(2 * high)], dtype=np.int16)
    values = np.arange(low, high)
    apart = digit_sums[values]
    carries: npt.NDArray[np.int16] = (apart[:, None] + apart - digit_sums[values[:, None] + values]) // 9
    return carries


def _sample(pairs_N2: Pairs) -> Pairs:
    """The pairs with the smallest hashes: the same ones on every machine and with every numpy."""
    if len(pairs_N2) <= PROBLEMS_PER_LEVEL:
        return pairs_N2
    hashes = ((pairs_N2[:, 0] * 1000 + pairs_N2[:, 1] + 1).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    hashes = (hashes ^ (hashes >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    kept = np.argsort(hashes ^ (hashes >> np.uint64(32)), kind="stable")[:PROBLEMS_PER_LEVEL]
    return pairs_N2[np.sort(kept)]
