"""The command line: one file per verb. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from hanse import __version__
from hanse.cli import consensus
from hanse.cli.check import check
from hanse.cli.env import env
from hanse.cli.eval import evaluate
from hanse.cli.export import export
from hanse.cli.guard import guarded
from hanse.cli.init import init
from hanse.cli.join import join
from hanse.cli.keys import keys
from hanse.cli.report import report
from hanse.cli.resume import resume
from hanse.cli.serve import serve
from hanse.cli.study import study
from hanse.cli.train import train

app = typer.Typer(
    name="hanse",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Several owners train one reasoning model together by GRPO.",
    epilog="Exit codes: 0 done, 2 recipe, 3 interrupted, 4 non-finite, 5 quorum, 6 run folder, 7 no server, "
    "1 a bug.",
)
VERBS: dict[str, Callable[..., None]] = {
    "train": train,
    "resume": resume,
    "study": study,
    "check": check,
    "eval": evaluate,
    "report": report,
    "export": export,
    "init": init,
    "keys": keys,
    "serve": serve,
    "join": join,
    "env": env,
}
for name, verb in VERBS.items():
    app.command(name)(guarded(verb))

_consensus = typer.Typer(no_args_is_help=True, help="Intermediate results that right solutions share.")
_consensus.command("build")(guarded(consensus.build))
_consensus.callback()(lambda: None)
app.add_typer(_consensus, name="consensus")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"hanse {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; leaves through SystemExit with one of the documented exit codes."""
    app(prog_name="hanse")
