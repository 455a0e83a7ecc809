"""A round that counts: asked for again while too few clients answer, up to the recipe's patience."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hanse.errors import QuorumError
from hanse.federation.client import Rows
from hanse.federation.records import RoundRecord
from hanse.recipe.runtime import RuntimeSpec


@dataclass(frozen=True)
class Asked:
    """What came of asking: a record a cohort, whose round counts where `needed` uploads were usable; rows of
    local steps by client; in words, what was left out; bytes."""

    records: list[RoundRecord]
    answers: dict[int, Rows]
    needed: Sequence[int]
    refused: list[str]
    up: int
    down: int

    @property
    def short(self) -> tuple[int, int] | None:
        """Usable and needed uploads of the first cohort whose round does not count."""
        for record, needed in zip(self.records, self.needed, strict=True):
            if not record.weights:
                return sum(s.upload is not None and not s.staleness for s in record.screened), needed
        return None


@dataclass(frozen=True)
class Met:
    """A round that counts, with all that was said before it. `missed`: how many attempts that took."""

    records: list[RoundRecord]
    answers: dict[int, Rows]
    refused: list[str] = field(default_factory=list)
    up: int = 0
    down: int = 0
    missed: int = 0


def meet_quorum(number: int, spec: RuntimeSpec, ask: Callable[[], Asked]) -> Met:
    """Ask until every cohort's round counts. Clients that answered before answer again with the same bytes.

    Raises QuorumError after `runtime.patience` attempts; nothing has changed then.
    """
    answers: dict[int, Rows] = {}
    refused: list[str] = []
    up = down = 0
    for missed in range(spec.patience):
        asked = ask()
        answers |= {client: rows for client, rows in asked.answers.items() if rows or client not in answers}
        refused += asked.refused
        up, down = up + asked.up, down + asked.down
        if asked.short is None:
            return Met(asked.records, dict(sorted(answers.items())), refused, up, down, missed)
    assert asked.short is not None
    raise QuorumError(_told(number, spec, *asked.short, asked.refused))


def _told(number: int, spec: RuntimeSpec, usable: int, needed: int, refused: Sequence[str]) -> str:
    came = "no usable upload" if usable == 0 else f"{usable} usable upload{'s' if usable > 1 else ''}"
    times = "" if spec.patience == 1 else f", {spec.patience} times in a row (runtime.patience)"
    why = f" {'; '.join(refused)}." if refused else ""
    return f"round {number}: {came} of {needed} needed{times}.{why} The last round is kept."
