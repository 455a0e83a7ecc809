"""`hanse keys`: what server and clients recognise one another by."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def keys(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files go.", show_default=False)],
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="For a server: its name or address. Repeatable.",
            show_default=False,
        ),
    ] = None,
    clients: Annotated[
        list[str] | None,
        typer.Option(
            "--client", metavar="NAME", help="For a client: its name. Repeatable.", show_default=False
        ),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=3650, help="How long the server's certificate holds.")
    ] = 825,
) -> None:
    """Make keys: an authority and certificate for a server, or a key pair for a client."""
    from hanse.errors import RecipeError
    from hanse.runtime.flower import require_flower

    require_flower("hanse keys")
    from hanse.runtime.flower.keys import KeyFolder, make_client_key, make_server_keys

    if not hosts and not clients:
        remedy = "Give --host HOST for a server's keys, or --client NAME for a client's."
        raise RecipeError("hanse keys", "it is not said whose keys to make.", remedy)
    made = make_server_keys(KeyFolder(folder), hosts, days) if hosts else []
    for client in clients or []:
        made += make_client_key(KeyFolder(folder), client)
    for path in made:
        typer.echo(f"{path}{'   (private: stays here)' if path.suffix == '.key' else ''}")
    if hosts:
        typer.echo(f"Give {folder / 'ca.pem'} to every client.")
    for client in clients or []:
        typer.echo(f"Give {folder / 'clients' / f'{client}.pem'} to the server, for its clients folder.")
