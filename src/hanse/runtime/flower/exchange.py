"""One exchange over a Grid: messages go out, and answers come until there are enough or the time is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from hanse.runtime.flower.envelope import EXCHANGE, Answer, EnvelopeError, ask, plain, read_answer
from hanse.runtime.flower.roster import Roster, Seat


@dataclass
class Post:
    """Sends and collects; remembers what was not answered in time, to count it should it still come.

    `max_bytes`: of the largest honest frame. `keeps`: whether late answers are kept for the server, which
    takes them by `take`; `remembers`: how many exchanges an answer may be late. `counts`: of answers by what
    became of them.
    """

    grid: Grid
    roster: Roster
    token: str
    ttl: float
    max_bytes: int
    keeps: bool = False
    remembers: int = 2
    counts: Counter[str] = field(default_factory=Counter)
    _overdue: dict[str, tuple[int, int]] = field(default_factory=dict)
    _kept: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    _spare: dict[int, bytes] = field(default_factory=dict)
    _number: int = 0

    def begin(self, messages: Mapping[int, bytes]) -> Exchange:
        for client, frame in self._spare.items():
            self._hold(client, self._number, frame)
        self._spare = {}
        self._number += 1
        return Exchange(self, self._number, messages)

    def overdue(self, client: int, name: str) -> None:
        """An exchange is over without this answer."""
        self._overdue[name] = (client, self._number)

    def spare(self, client: int, answer: Answer) -> None:
        """An answer that came after enough others: late for its exchange, so it counts in the next one."""
        self.counts["late_replies"] += 1
        if self.keeps:
            self._spare[client] = answer.frame

    def take(self) -> dict[int, bytes]:
        """The late answers that are kept, by client."""
        kept, self._kept = self._kept, {}
        return {client: frame for client, (_, frame) in kept.items()}

    @property
    def outstanding(self) -> int:
        """Late answers that may still count: those kept, and those on their way."""
        return len(self._kept) + len(self._spare) + len(self._overdue) if self.keeps else 0

    def late(self) -> list[str]:
        """Answers to exchanges that are over: counted, told, and kept or thrown away."""
        told = []
        for reply in self.grid.pull_messages(list(self._overdue)) if self._overdue else ():
            name = reply.metadata.reply_to_message_id
            if name not in self._overdue or reply.has_error():
                continue
            late, number = self._overdue.pop(name)
            self.counts["late_replies"] += 1
            after, then = (
                self._number - number,
                self._keep(late, number, reply) if self.keeps else "thrown away",
            )
            told.append(f"{self.roster.names[late]}: answered {after} exchanges too late; {then}")
        oldest = self._number - self.remembers
        self._overdue = {name: sent for name, sent in self._overdue.items() if sent[1] >= oldest}
        return told

    def _keep(self, client: int, number: int, reply: Message) -> str:
        try:
            answer = read_answer(reply.content, max_bytes=self.max_bytes)
        except EnvelopeError as error:
            self.counts["failed_replies"] += 1
            return str(error)
        if answer.refused:
            return f"its client says: {answer.refused}"
        return self._hold(client, number, answer.frame)

    def _hold(self, client: int, number: int, frame: bytes) -> str:
        """Keep an answer to the `number`-th exchange: of two of a client the one to the later exchange,
        whichever came first."""
        held = self._kept.get(client)
        if held is not None:
            self.counts["late_discarded"] += 1
        if held is not None and held[0] > number:
            return "discarded, as a newer one is here"
        self._kept[client] = number, frame
        return "kept for this round"


@dataclass
class Exchange:
    """The exchange that is going on. `answers`: by client; `failed`: why a client has none."""

    post: Post
    number: int
    messages: Mapping[int, bytes]
    answers: dict[int, Answer] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    _sent: dict[int, tuple[Seat, str]] = field(default_factory=dict)

    @property
    def waiting(self) -> list[int]:
        """Clients that have neither answered nor failed."""
        return [k for k in self.messages if k not in self.answers and k not in self.failed]

    @property
    def away(self) -> bool:
        """Whether all that are waited for are away, so that waiting may be in vain."""
        return all(self.post.roster.seat(client) is None for client in self.waiting)

    def step(self) -> None:
        """Send to those who came, or came back, since; read what has arrived."""
        for client in self.waiting:
            seat = self.post.roster.seat(client)
            if seat is not None and (client not in self._sent or self._sent[client][0] != seat):
                self._send(client, seat)
        sent = {name: client for client, (_, name) in self._sent.items() if client in self.waiting}
        for reply in self.post.grid.pull_messages(list(sent)) if sent else ():
            answering = sent.get(reply.metadata.reply_to_message_id)
            if answering is not None:
                self._read(answering, reply)

    def cut(self, enough: int) -> None:
        """Keep the first answers; the others came too late."""
        for client in list(self.answers)[enough:]:
            self.post.spare(client, self.answers.pop(client))
            self.failed[client] = "answered after enough others"

    def close(self) -> list[str]:
        """End it: in words, who has not answered and why."""
        for client in self.waiting:
            if client in self._sent:
                self.post.overdue(client, self._sent[client][1])
            here = self.post.roster.seat(client) is not None
            self.failed[client] = "no answer in time" if here else "away"
        return [f"{self.post.roster.names[k]}: {why}" for k, why in sorted(self.failed.items())]

    def _send(self, client: int, seat: Seat) -> None:
        content = ask(self.messages[client], self.post.token)
        message = Message(
            content,
            dst_node_id=seat[0],
            message_type=EXCHANGE,
            ttl=self.post.ttl,
            group_id=str(self.number),
        )
        name = next(iter(self.post.grid.push_messages([message])), "")
        if name:
            self._sent[client] = (seat, name)

    def _read(self, client: int, reply: Message) -> None:
        if reply.has_error():
            if reply.error.code == ErrorCode.NODE_UNAVAILABLE:
                return  # asked again when it comes back
            self._fail(client, plain(f"Flower error {reply.error.code}: {reply.error.reason}"))
            return
        try:
            answer = read_answer(reply.content, max_bytes=self.post.max_bytes)
        except EnvelopeError as error:
            self._fail(client, str(error))
            return
        if answer.refused:
            self._fail(client, f"its client says: {answer.refused}")
        else:
            self.answers[client] = answer

    def _fail(self, client: int, why: str) -> None:
        self.post.counts["failed_replies"] += 1
        self.failed[client] = why
