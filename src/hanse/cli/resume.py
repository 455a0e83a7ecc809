"""`hanse resume`: go on with a run that was stopped."""

from __future__ import annotations

from hanse.cli.options import Quiet, RunFolder
from hanse.cli.outcome import print_outcome
from hanse.errors import InterruptedRunError


def resume(run: RunFolder, quiet: Quiet = False) -> None:
    """Continue RUN from its newest complete round."""
    from hanse.cli.progress import progress_unless
    from hanse.runs import resume as go_on

    try:
        finished = go_on(run, progress=progress_unless(quiet))
    except KeyboardInterrupt:
        raise InterruptedRunError(f"Interrupted. Continue with: hanse resume {run}") from None
    print_outcome(finished.folder, finished.summary, reached=quiet)
