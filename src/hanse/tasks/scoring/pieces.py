"""How a score is cut into calls, and into smaller ones where a call fails.

The cut depends on the problems and the function alone, not on how many workers there are or which is free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hanse.tasks.rewards.batch import Failure, Result


@dataclass(frozen=True)
class Cut:
    """At most `rows` a call; a function that may compare group-mates gets whole groups (at least one)."""

    rows: int
    whole_groups: bool

    def pieces(self, groups: Sequence[range]) -> list[range]:
        """All rows, in order."""
        if not groups:
            return []
        total = groups[-1].stop
        if not self.whole_groups:
            return [range(i, min(i + self.rows, total)) for i in range(0, total, self.rows)]
        pieces = [groups[0]]
        for group in groups[1:]:
            if group.stop - pieces[-1].start <= self.rows:
                pieces[-1] = range(pieces[-1].start, group.stop)
            else:
                pieces.append(group)
        return pieces

    def smaller(self, rows: range, groups: Sequence[range]) -> list[range]:
        """What to try when a call on `rows` failed: its groups, then its rows; nothing for a single row."""
        if len(rows) == 1:
            return []
        inside = [group for group in groups if rows.start <= group.start and group.stop <= rows.stop]
        if self.whole_groups and len(inside) > 1:
            return inside
        return [range(i, i + 1) for i in rows]


@dataclass
class Outcome:
    """One function's values for N rows (None where it did not apply), and the rows it failed on."""

    values: list[float | None]
    failures: dict[int, Failure] = field(default_factory=dict)

    def record(self, rows: range, result: Result) -> None:
        if isinstance(result, Failure):
            self.failures.update(dict.fromkeys(rows, result))
        else:
            self.values[rows.start : rows.stop] = result


@dataclass(frozen=True)
class Piece:
    """One call: function number `function` on `rows`."""

    function: int
    rows: range


def settle(
    pieces: list[Piece],
    run: Callable[[list[Piece]], list[Result]],
    smaller: Callable[[Piece, Failure], list[range]],
    outcomes: Sequence[Outcome],
) -> None:
    """Run pieces, then smaller pieces of those that failed, until each row has a value or a failure."""
    while pieces:
        again = []
        for piece, result in zip(pieces, run(pieces), strict=True):
            parts = smaller(piece, result) if isinstance(result, Failure) else []
            again += [Piece(piece.function, rows) for rows in parts]
            if not parts:
                outcomes[piece.function].record(piece.rows, result)
        pieces = again
