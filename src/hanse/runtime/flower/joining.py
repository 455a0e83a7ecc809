"""A client's process: stays connected to its server, answers what it asks, and ends when the run is over."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp

from hanse.errors import RecipeError, UnreachableError
from hanse.runtime.flower.private.supernode import (
    Connection,
    LostError,
    OtherTransportError,
    TurnedAwayError,
)

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0


def checked_address(text: str) -> str:
    """`text`. Raises RecipeError where it is not HOST:PORT: waiting would not mend it."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[2]) < 1 << 16:
        remedy = "Give the server's name or address and its port, such as fed.example.org:9443."
        raise RecipeError("--server", f"{text!r} is not HOST:PORT.", remedy)
    return text


@dataclass
class Joined:
    """`address`: host and port; `authority`: the certificate, PEM, that signed the server's, None: no TLS;
    `key`: the client's; `patience_s`: how long to try before giving a server up that does not answer."""

    address: str
    authority: bytes | None
    key: ec.EllipticCurvePrivateKey
    client: int
    max_bytes: int
    patience_s: float
    say: Callable[[str], None]
    over: threading.Event = field(default_factory=threading.Event)
    poll_s: float = 0.5
    why: str = ""

    def end(self, why: str) -> None:
        """Stop answering. `why`: the server's reason for turning this client away, if it did."""
        self.why = why
        self.over.set()

    def run(self, app: ClientApp) -> None:
        """Answer with `app` until a farewell sets `over`.

        Raises UnreachableError where the server turns this client away, or is gone for too long.
        """
        wait, since = _FIRST_WAIT_S, time.monotonic()
        while not self.over.is_set():
            try:
                with closing(self._connection()) as connection:
                    self.say(f"Connected to {self.address}.")
                    wait = _FIRST_WAIT_S
                    self._answer(connection, app)
            except TurnedAwayError as error:
                raise UnreachableError(_TURNED_AWAY.format(address=self.address, why=error)) from error
            except OtherTransportError as error:
                raise UnreachableError(_OTHERWISE.format(address=self.address, why=error)) from error
            except LostError as error:
                since = time.monotonic() if wait == _FIRST_WAIT_S else since
                if time.monotonic() - since + wait > self.patience_s:
                    raise UnreachableError(_GONE.format(address=self.address, why=error)) from error
                self.say(f"No connection to {self.address} ({error}); trying again in {wait:.0f} s.")
                self.over.wait(wait)
                wait = min(2 * wait, _LONGEST_WAIT_S)
        if self.why:
            raise UnreachableError(_DONE_WITHOUT.format(address=self.address, why=self.why))

    def _connection(self) -> Connection:
        known = self.authority is not None
        return Connection(self.address, self.authority, self.key, known=known, max_bytes=self.max_bytes)

    def _answer(self, connection: Connection, app: ClientApp) -> None:
        context = Context(
            run_id=0,
            node_id=connection.node.node_id,
            node_config={"partition-id": self.client},
            state=RecordDict(),
            run_config={},
        )
        while not self.over.is_set():
            message = connection.receive()
            if message is None:
                self.over.wait(self.poll_s)
            else:
                connection.send(app(message, context))


_TURNED_AWAY = (
    "--server: {address} does not let this client in ({why}). Check that --keys holds the server's ca.pem, "
    "that the server has this client's public key, and that both clocks are right."
)
_OTHERWISE = (
    "--server: {address} and this client cannot talk: {why}. Give --keys DIR to both, or --insecure to both, "
    "then run the same command."
)
_DONE_WITHOUT = (
    "--server: {address} turned this client away: {why}. Give --recipe, --client and --keys that agree with "
    "the server's, without --set of your own, then run the same command."
)
_GONE = "--server: {address} does not answer ({why}). Check the address, and that the server runs."
