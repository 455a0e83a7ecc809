"""`hanse study`: recipes × seeds, run and compared."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from hanse.cli.options import Overrides, Quiet
from hanse.errors import InterruptedRunError, RunError

_Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="ARM", help="Run this arm only. Repeatable.", show_default=False),
]


def study(
    file: Annotated[Path, typer.Argument(metavar="STUDY", help="A study in TOML.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Its folder is DIR/NAME.")] = Path("runs"),
    only: _Only = None,
    overrides: Overrides = None,
    quiet: Quiet = False,
) -> None:
    """Run every arm of STUDY on every seed and compare them; run it again to go on."""
    from hanse.recipe.study import load_study

    loaded = load_study(file, overrides or [])
    command = _command(file, out, only or [], overrides or [])
    document = _run(loaded, command, out=out, only=only or [], quiet=quiet)
    folder = out / loaded.spec.name
    _print_outcome(document, folder)
    _raise_failures(document, command)


def _run(loaded: Any, command: str, *, out: Path, only: list[str], quiet: bool) -> dict[str, Any]:
    import sys

    from hanse.runs.study import run_study
    from hanse.runs.study.progress import SilentStudy, build_study_progress

    progress = SilentStudy() if quiet else build_study_progress(sys.stderr)
    try:
        return run_study(loaded, out=out, only=only, command=command, progress=progress)
    except KeyboardInterrupt:
        raise InterruptedRunError(f"Interrupted. Continue with: {command}") from None


def _command(file: Path, out: Path, only: list[str], overrides: list[str]) -> str:
    parts = ["hanse", "study", str(file)]
    parts += ["--out", str(out)] if out != Path("runs") else []
    parts += [word for arm in only for word in ("--only", arm)]
    parts += [word for override in overrides for word in ("--set", override)]
    return shlex.join(parts)


def _print_outcome(document: dict[str, Any], folder: Path) -> None:
    from rich.console import Console

    from hanse.runs.study.outcome import outcome_table

    Console().print(outcome_table(document))
    typer.echo(f"Results: {folder / 'study.json'}   Page: {folder / 'study.html'}")


def _raise_failures(document: dict[str, Any], command: str) -> None:
    from hanse.runs.study.document import failures

    failed = failures(document)
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise RunError(f"A run has failed: {failed[0]}{more} Mend it, then go on with: {command}")
