"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RecipeFile = Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe in TOML.", show_default=False)]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.", show_default=False)]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a recipe field, as grpo.lr=1e-5. Repeatable.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress display.")]
Keys = Annotated[
    Path | None,
    typer.Option("--keys", metavar="DIR", help="A folder made by hanse keys.", show_default=False),
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="No keys and no encryption: only on a network of your own.")
]
