"""A server that clients join: its address and keys, kept in the run folder for `hanse resume`."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from hanse.errors import RecipeError, RunError
from hanse.runtime.base import Setting
from hanse.runtime.flower.envelope import FAREWELL, ask
from hanse.runtime.flower.keys import KeyFolder
from hanse.runtime.flower.over_grid import OverGrid
from hanse.storage import write_json

FILE = "serve.json"
_FAREWELL_S = 15.0


@dataclass(frozen=True)
class Serving:
    """Where clients find the server. `keys`: a folder of `hanse keys`; None: anybody may join, in clear."""

    host: str
    port: int
    keys: str | None

    def save(self, folder: Path) -> None:
        write_json(folder / FILE, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> Serving:
        """Raises RunError where it is missing or damaged."""
        try:
            return cls(**json.loads((folder / FILE).read_bytes()))
        except (OSError, ValueError, TypeError) as error:
            raise RunError(
                f'{folder / FILE} cannot be read ({error}). Clients of type = "flower" join a server: begin '
                "such a run with `hanse serve RECIPE`."
            ) from error

    def check(self, names: Sequence[str] = ()) -> None:
        """Raises RecipeError where keys are missing, of the server or of the named clients."""
        if self.keys is None:
            return
        folder = KeyFolder(Path(self.keys))
        for path in folder.certificate:
            folder.read(path, f"Make it with: hanse keys {self.keys} --host HOST")
        for name in names:
            folder.client_public(name)


class Link:
    """Serves clients for the length of a run."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self._superlink: Any = None

    def connect(self, setting: Setting) -> OverGrid:
        """Begin to listen. Raises RecipeError for missing keys and an address that is not to be had."""
        from hanse.runtime.flower.private.superlink import SuperLink

        os.environ["FLWR_HOME"] = str(setting.folder / ".flwr")
        serving, certificate, keys = self.serving, None, None
        serving.check(setting.names)
        if serving.keys is not None:
            folder = KeyFolder(Path(serving.keys))
            certificate = (str(folder.certificate[0]), str(folder.certificate[1]))
            for warning in folder.exposed(folder.path / "ca.key", folder.certificate[1]):
                setting.say(warning)
            keys = [folder.client_public(name) for name in setting.names]
        link = self._superlink = SuperLink(listen(serving.host, serving.port), keys, certificate)
        owners = None if keys is None else {node: client for client, node in enumerate(link.nodes)}
        setting.say(
            f"Listening on {serving.host}:{serving.port}{'' if keys else ', unencrypted, for anybody'}."
        )
        runtime = OverGrid(
            setting.recipe, setting.names, link.grid, setting.host, owners=owners, say=setting.say
        )
        link.guard.allow(runtime.max_bytes)
        return runtime

    def farewell(self) -> None:
        """Tell clients that the run is over, so that they end too."""
        if self._superlink is not None:
            say_farewell(self._superlink.grid, _FAREWELL_S)

    def close(self) -> None:
        if self._superlink is not None:
            self._superlink.close()


def say_farewell(grid: Grid, within_s: float) -> None:
    """Push farewells, and wait until they are answered or the time is over."""
    end = time.monotonic() + within_s
    waiting: Mapping[str, int] = {
        name: node
        for node in grid.get_node_ids()
        for name in grid.push_messages(
            [Message(ask(b"", "0" * 32), dst_node_id=node, message_type=FAREWELL, ttl=within_s)]
        )
        if name
    }
    while waiting and time.monotonic() < end:
        heard = {reply.metadata.reply_to_message_id for reply in grid.pull_messages(list(waiting))}
        waiting = {name: node for name, node in waiting.items() if name not in heard}
        time.sleep(0.1)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises RecipeError where the address is not to be had."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        problem = f"cannot listen on {host}:{port}: {error.strerror or error}."
        raise RecipeError("--port", problem, "Choose another port, or end what uses it.") from error
    return found
