"""A client's end: what arrives as bytes is answered by the clients of a host, from memory on their disk."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from hanse.errors import HanseError
from hanse.federation.wire.frame import WireError, kind_of
from hanse.recipe.model import Recipe
from hanse.runtime.flower.agreement import terms
from hanse.runtime.flower.envelope import Answer
from hanse.runtime.flower.keep import Keep
from hanse.runtime.flower.metrics import leaving
from hanse.runtime.host import Host

log = logging.getLogger("hanse.node")


class Node:
    """Answers for clients of one machine. The host is built at the first message that needs it.

    `folder`: under it each run and client has a folder of its own. `forget`: a client is read from there each
    time, as other processes may answer for it in between.
    """

    def __init__(
        self, recipe: Recipe, folder: Path, build: Callable[[], Host], *, forget: bool = False
    ) -> None:
        self.recipe, self.folder, self.forget = recipe, folder, forget
        self._build = build
        self._host: Host | None = None
        self._keeps: dict[tuple[str, int], Keep] = {}

    def hello(self, client: int) -> dict[str, str | int]:
        """Which client this is, and what it takes the recipe to say."""
        return {"client": client, "terms": terms(self.recipe)}

    def answer(self, client: int, data: bytes, token: str) -> Answer:
        """The reply to a frame, or why there is none. Never raises: one bad message ends nothing.

        What went wrong beyond our own words stays here, in the log.
        """
        try:
            return self._answer(client, data, token)
        except WireError as error:
            return Answer(refused=str(error))
        except HanseError as error:
            log.error("%s", error)
            return Answer(refused=f"the client cannot go on ({type(error).__name__})")
        except Exception as error:
            log.exception("client %d failed", client)
            return Answer(refused=f"the client failed ({type(error).__name__})")

    def _answer(self, client: int, data: bytes, token: str) -> Answer:
        host = self._host = self._host or self._build()
        if client not in host.clients:
            host.clients[client] = host.new_client(client)
        keep = self._keeps.setdefault((token, client), Keep(self.folder / token / f"client-{client:04d}"))
        held = host.clients[client]
        keep.recall(held)
        before = held.state
        reply, rows = host.answer(client, data, keep_earlier=True)
        if held.state is not before:
            keep.note(held, leaving(rows, self.recipe.grpo.prompts_per_step))
        if self.forget:
            del host.clients[client], self._keeps[token, client]
        told = keep.rows if kind_of(data) == "broadcast" and kind_of(reply) != "resync" else []
        return Answer(reply, told)

    def close(self) -> None:
        if self._host is not None:
            self._host.close()
