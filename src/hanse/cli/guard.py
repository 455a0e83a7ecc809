"""What every verb has in common: how it fails."""

from __future__ import annotations

import functools
import shutil
import textwrap
from collections.abc import Callable
from typing import Any, NoReturn

import typer

from hanse.errors import EXIT_INTERRUPTED, HanseError


def guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with its failures told: one paragraph on stderr and the error's exit code.

    Anything that is not a HanseError passes through with its traceback (exit code 1): it is a bug.
    """

    @functools.wraps(verb)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            verb(*args, **kwargs)
        except HanseError as error:
            fail(str(error), error.exit_code)
        except KeyboardInterrupt:
            fail("Interrupted. A run that had begun continues with: hanse resume RUN", EXIT_INTERRUPTED)

    return run


def fail(message: str, code: int) -> NoReturn:
    """Print a paragraph to stderr and leave with `code`."""
    typer.echo(paragraph(message), err=True)
    raise typer.Exit(code)


def paragraph(text: str) -> str:
    """One paragraph, wrapped for the terminal (100 columns at most); words and paths stay whole."""
    width = max(40, min(100, shutil.get_terminal_size().columns))
    return textwrap.fill(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)
