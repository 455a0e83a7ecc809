"""Ctrl-C leaves a run that can be resumed, and says how."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hanse.errors import InterruptedRunError


@contextmanager
def resumable(out: Path) -> Iterator[None]:
    """Inside the block, Ctrl-C becomes an error that names the run folder which appeared in `out` meanwhile.

    Raises InterruptedRunError.
    """
    before = _runs(out)
    try:
        yield
    except KeyboardInterrupt:
        new = sorted(_runs(out) - before)
        if not new:
            raise InterruptedRunError("Interrupted before the run had a folder: nothing to resume.") from None
        raise InterruptedRunError(f"Interrupted. Continue with: hanse resume {new[-1]}") from None


def _runs(out: Path) -> set[Path]:
    return {p.parent for p in out.glob("*/recipe.toml")} if out.is_dir() else set()
