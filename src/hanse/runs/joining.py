"""A client's own machine: its problems, its memory on disk, its connection to the server."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Context

from hanse.errors import RecipeError, RunError
from hanse.recipe.model import Recipe, TinyPolicy
from hanse.runs.start import warmed_start
from hanse.runtime.flower.client_app import client_app
from hanse.runtime.flower.joining import Joined, checked_address
from hanse.runtime.flower.keys import KeyFolder
from hanse.runtime.flower.node import Node
from hanse.runtime.host import Host, client_data
from hanse.tasks.build import own_problems, recipe_task

MAX_MESSAGE = 1 << 34
"""Bytes of a server's message that a client takes in at most; the frame's reader is stricter."""


@dataclass(frozen=True)
class Membership:
    """What one client needs to take part. `data`: its own file, where the recipe does not say which problems
    are its; `keys`: a folder of `hanse keys`, None: in clear; `folder`: where it keeps its state."""

    recipe: Recipe
    server: str
    client: str
    data: str | None
    keys: Path | None
    folder: Path
    patience_s: float = 3600.0

    @property
    def index(self) -> int:
        """The client's number. Raises RecipeError for a name that the recipe does not have."""
        names = client_names(self.recipe)
        if self.client not in names:
            problem = f"{self.client!r} is none of the recipe's clients: {', '.join(names)}."
            raise RecipeError("--client", problem, "Give one of them.")
        return names.index(self.client)


def client_names(recipe: Recipe) -> list[str]:
    return [part.name for part in client_data(recipe, recipe_task(recipe))]


def join_run(member: Membership, say: Callable[[str], None]) -> None:
    """Take part until the run is over.

    Raises RecipeError, RunError, and UnreachableError where the server is gone or turns the client away.
    """
    if member.recipe.runtime.type != "flower":
        problem = f'is "{member.recipe.runtime.type}"; clients join runs of type "flower".'
        raise RecipeError("runtime.type", problem, 'Set runtime.type = "flower", there and here.')
    index = member.index
    joined = _connected(member, index, say)
    os.environ["FLWR_HOME"] = str(member.folder / ".flwr")
    with _locked(member.folder), closing(_node(member, index)) as node:
        say(f"{member.client} is ready.")
        joined.run(client_app(lambda: node, partial(_always, index), joined.end))
    say("The run is over.")


def _always(index: int, context: Context) -> int:
    return index


def _connected(member: Membership, index: int, say: Callable[[str], None]) -> Joined:
    authority, key = None, ec.generate_private_key(ec.SECP384R1())
    if member.keys is not None:
        keys = KeyFolder(member.keys)
        authority = keys.authority_pem()
        key = keys.client_key(member.client)
        for warning in keys.exposed(keys.private(member.client)):
            say(warning)
    return Joined(checked_address(member.server), authority, key, index, MAX_MESSAGE, member.patience_s, say)


def _node(member: Membership, index: int) -> Node:
    """Its host is built now: what is wrong with data or policy is told before anybody waits."""
    recipe = member.recipe
    own = None
    if member.data is not None:
        own = {index: own_problems(recipe.task, member.data)}
    elif recipe.partition.by == "own":
        remedy = "Give --data FILE with this client's problems."
        raise RecipeError("--data", 'partition.by = "own" leaves them to each client.', remedy)
    start = None
    if isinstance(recipe.policy, TinyPolicy):
        start = warmed_start(recipe, recipe.policy, recipe_task(recipe))
    host = Host(recipe, start, [index], own, member.folder / "private")
    host.scorer.start()
    return Node(recipe, member.folder, lambda: host)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process for each client's memory. Raises RunError where another one has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise RunError(f"--state: {folder} cannot be written: {error}. Choose another folder.") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunError(f"--state: {folder} is in use by another `hanse join`.") from error
        yield
