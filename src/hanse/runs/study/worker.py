"""A process that brings one run to its end: `python -m hanse.runs.study.worker RUN PARENT`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hanse.errors import EXIT_INTERRUPTED, EXIT_OK, HanseError
from hanse.storage import write_json
from hanse.tasks.scoring.sandbox import die_with_parent


def main(folder: Path, parent: int) -> int:
    """The exit code; a failure that the user can mend is written to the run's error.json."""
    die_with_parent()
    if os.getppid() != parent:
        return EXIT_INTERRUPTED
    from hanse.runs.api import resume

    try:
        resume(folder)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except HanseError as error:
        write_json(folder / "error.json", {"error": str(error), "exit_code": error.exit_code})
        return error.exit_code
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
