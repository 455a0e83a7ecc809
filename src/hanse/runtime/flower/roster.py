"""Who is there: clients by number, and the node that each of them is reached at now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from flwr.app import Message
from flwr.serverapp import Grid

from hanse.runtime.flower.agreement import differing
from hanse.runtime.flower.envelope import FAREWELL, HELLO, EnvelopeError, ask, plain, read_words

Seat = tuple[int, str]
"""A node and when it was last activated: a client that was restarted sits elsewhere."""


@dataclass
class Roster:
    """Asks every node that comes who it is. `owners`: clients by node where keys prove it, else None.

    `terms`: what clients must read in their recipe too. `say`: takes notes for the person who watches.
    """

    grid: Grid
    names: Sequence[str]
    terms: str
    token: str
    ttl: float
    say: Callable[[str], None]
    owners: Mapping[int, int] | None = None
    _asked: dict[Seat, str] = field(default_factory=dict)
    _known: dict[Seat, int] = field(default_factory=dict)
    _seats: dict[int, Seat] = field(default_factory=dict)

    @property
    def missing(self) -> list[int]:
        return [client for client in range(len(self.names)) if client not in self._seats]

    def seat(self, client: int) -> Seat | None:
        """Where the client is reached; None while it is away."""
        return self._seats.get(client)

    def refresh(self) -> None:
        """Look who came and went; ask newcomers, and hear what those asked before have said."""
        here = {(node.node_id, node.last_activated_at or "") for node in self.grid.get_nodes()}
        for seat in [seat for seat in self._asked if seat not in here]:
            del self._asked[seat]
        for seat in [seat for seat in sorted(here) if seat not in self._asked and seat not in self._known]:
            self._asked[seat] = self._ask(seat)
        self._hear()
        now = {client: seat for seat, client in self._known.items() if seat in here}
        for client in sorted(self._seats.keys() - now.keys()):
            self.say(f"{self.names[client]} is away.")
        self._seats = now

    def _ask(self, seat: Seat) -> str:
        hello = Message(ask(b"", self.token), dst_node_id=seat[0], message_type=HELLO, ttl=self.ttl)
        return next(iter(self.grid.push_messages([hello])), "") or ""

    def _hear(self) -> None:
        waiting = {name: seat for seat, name in self._asked.items() if name and seat not in self._known}
        if not waiting:
            return
        for reply in self.grid.pull_messages(list(waiting)):
            seat = waiting.get(reply.metadata.reply_to_message_id)
            if seat is not None:
                self._admit(seat, reply)

    def _admit(self, seat: Seat, reply: Message) -> None:
        """Take a node's word for who it is, as far as its key or its recipe do not say otherwise."""
        if reply.has_error():
            return
        try:
            words = read_words(reply.content)
        except EnvelopeError as error:
            self._turn_away(seat, f"node {seat[0]}", f"{error}")
            return
        client = words.get("client")
        if type(client) is not int or not 0 <= client < len(self.names):
            self._turn_away(seat, f"node {seat[0]}", "it is no client of this run")
        elif self.owners is not None and self.owners.get(seat[0]) != client:
            self._turn_away(seat, f"node {seat[0]}", f"its key is not that of {self.names[client]}")
        elif wrong := differing(self.terms, words.get("terms")):
            told = plain(", ".join(wrong))
            self._turn_away(seat, self.names[client], f"its recipe differs from the server's in {told}")
        else:
            self._known = {s: k for s, k in self._known.items() if k != client} | {seat: client}
            self._seats[client] = seat
            self.say(f"{self.names[client]} is here.")

    def _turn_away(self, seat: Seat, who: str, why: str) -> None:
        """Tell both ends: a client that is not told would wait for its turn until the run is over."""
        self.say(f"{who} was turned away: {why}.")
        words = ask(why.encode(), self.token)
        self.grid.push_messages([Message(words, dst_node_id=seat[0], message_type=FAREWELL, ttl=self.ttl)])
