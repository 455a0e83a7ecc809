"""A client's memory on its own disk: the two newest rounds, each written before its reply leaves.

A client that is killed goes on where it was, and a message that it answered already gets the same bytes; a
server that was restored one round back finds the state before that round.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hanse.federation.client import Client, ClientState, Rows, Trained
from hanse.federation.signal import Signal
from hanse.runtime.state import client_of, client_parts, load_tensors, prefixed, save_tensors, unprefixed
from hanse.storage import new_file, remove_leftovers

if TYPE_CHECKING:
    from hanse.federation.secure.session import Session

KEPT_ROUNDS = 2
_FILE = re.compile(r"round-(\d{6,})\.safetensors")


@dataclass
class Keep:
    """`folder`: of one client in one run. `rows`: metrics of the newest round, told again with its reply."""

    folder: Path
    rows: Rows = field(default_factory=list)
    _written: tuple[int, int] | None = None

    def recall(self, client: Client) -> None:
        """Give `client` its two newest states; one that has been nowhere yet keeps what it has.

        Raises RunError where a file is damaged.
        """
        files = self._files()
        if files and self._stamp(files[-1]) == self._written:
            return
        fresh, states = client.state, [self._read(file) for file in files[-KEPT_ROUNDS:]]
        self.rows = states[-1][1] if states else []
        client.state = states[-1][0] if states else fresh
        client.earlier = states[-2][0] if len(states) > 1 else fresh if states else None

    def note(self, client: Client, rows: Rows) -> None:
        """Write the client's state down; no `rows`: those of its round are known already."""
        self.rows = rows or self.rows
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.folder)
        path = self.folder / f"round-{client.state.round:06d}.safetensors"
        with new_file(path) as temporary:
            save_tensors(temporary, *parts(client.state, self.rows))
        self._written = self._stamp(path)
        for old in [file for file in self._files() if file.name > path.name] + self._files()[:-KEPT_ROUNDS]:
            old.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(file for file in self.folder.iterdir() if _FILE.fullmatch(file.name))

    def _read(self, path: Path) -> tuple[ClientState, Rows]:
        tensors, fields = load_tensors(path)
        self._written = self._stamp(path)
        return whole(tensors, fields), fields["rows"]

    def _stamp(self, path: Path) -> tuple[int, int]:
        found = path.stat()
        return found.st_ino, found.st_mtime_ns


def parts(state: ClientState, rows: Rows) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and fields of a client's state in the middle of a round, replies included."""
    tensors, fields = client_parts(state)
    tensors |= prefixed("reply", {str(i): _tensor(reply) for i, reply in enumerate(state.replies)})
    if state.trained is not None:
        tensors["trained"] = state.trained.target
        tensors |= prefixed("extra", {name: _tensor(data) for name, data in state.trained.extras.items()})
        fields |= {"signal": asdict(state.trained.signal), "changed": state.trained.changed}
    if state.secure is not None:
        from hanse.federation.secure.memory import pack_session

        tensors["secure"] = _tensor(pack_session(state.secure))
    return tensors, fields | {"rows": rows, "replies": len(state.replies)}


def whole(tensors: Mapping[str, Tensor], fields: Mapping[str, Any]) -> ClientState:
    """The state that `parts` took apart."""
    replies = unprefixed("reply", tensors)
    trained = None
    if "trained" in tensors:
        extras = {name: _bytes(tensor) for name, tensor in unprefixed("extra", tensors).items()}
        trained = Trained(tensors["trained"], Signal.from_fields(fields["signal"]), fields["changed"], extras)
    return replace(
        client_of(tensors, fields),
        trained=trained,
        secure=_session(tensors.get("secure")),
        replies=tuple(_bytes(replies[str(i)]) for i in range(fields["replies"])),
    )


def _session(packed: Tensor | None) -> Session | None:
    """A part in a secure sum; of such a recipe only, as reading it needs an extra."""
    if packed is None:
        return None
    from hanse.federation.secure.memory import unpack_session

    return unpack_session(_bytes(packed))


def _tensor(data: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())


def _bytes(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()
