"""The progress display of a verb, or none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hanse.runs.progress import Progress


def progress_unless(quiet: bool) -> Progress | None:
    """Progress on stderr (rich on a terminal, plain lines elsewhere); None when quiet."""
    if quiet:
        return None
    from hanse.runs.progress import build_progress

    return build_progress(sys.stderr)
