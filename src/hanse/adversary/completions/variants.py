"""Copies of a worked text that differ and are still right: a true step is turned round or repeated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count, islice, product

_SUM = re.compile(r"((?:\w+ = )?)(\w+) ([+*]) (\w+)((?: = \w+)?)")
_CLAIM = re.compile(r"(\d+) ?([+*xX-]) ?(\d+) ?= ?(\d+)\.?")


def variants(steps: Sequence[str], most: int, *, last_once: bool = False) -> list[tuple[str, ...]]:
    """Up to `most` different lists of steps, the shorter first, the given one foremost.

    `last_once`: the last step is never repeated (a program's print).
    """
    return list(islice(_distinct(steps, last_once), most))


def _distinct(steps: Sequence[str], last_once: bool) -> Iterator[tuple[str, ...]]:
    seen: set[tuple[str, ...]] = set()
    repeatable = [not _is_false(step) for step in steps]
    if last_once and repeatable:
        repeatable[-1] = False
    rounds = count() if any(repeatable) else range(1)
    for extra in rounds:
        for times in _spread(extra, repeatable):
            for chosen in product(*(_turned(step) for step in steps)):
                made = tuple(step for step, n in zip(chosen, times, strict=True) for _ in range(1 + n))
                if made not in seen:
                    seen.add(made)
                    yield made


def _spread(extra: int, repeatable: Sequence[bool]) -> Iterator[tuple[int, ...]]:
    """All ways to give `extra` repeats to the steps that may have some."""
    if not repeatable:
        if extra == 0:
            yield ()
        return
    for first in range(extra if repeatable[0] else 0, -1, -1):
        for rest in _spread(extra - first, repeatable[1:]):
            yield (first, *rest)


def _turned(step: str) -> list[str]:
    """The step, and with its operands the other way round where that changes it."""
    match = _SUM.fullmatch(step)
    if match is None or match[2] == match[4] or _is_false(step):
        return [step]
    return [step, f"{match[1]}{match[4]} {match[3]} {match[2]}{match[5]}"]


def _is_false(step: str) -> bool:
    match = _CLAIM.fullmatch(step)
    if match is None:
        return False
    a, b, told = int(match[1]), int(match[3]), int(match[4])
    return told != {"+": a + b, "-": a - b}.get(match[2], a * b)
