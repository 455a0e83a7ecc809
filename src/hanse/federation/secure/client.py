"""A client whose updates leave masked, and in no other way."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from torch import Tensor

from hanse.federation.client import Client, ClientState, Rows
from hanse.federation.messages import Report
from hanse.federation.secure.messages import QUESTIONS
from hanse.federation.secure.session import Desk
from hanse.federation.secure.terms import largest_of
from hanse.federation.wire.frame import WireError, kind_of
from hanse.grpo.learner import Learner
from hanse.grpo.step import Scoring
from hanse.policy.sampler import Sampler
from hanse.privacy.secure.primitives import Entropy
from hanse.recipe.secure import Reach


@dataclass
class SecureClient(Client):
    """Answers a broadcast with its report and fresh keys, and then the questions of a secure sum."""

    entropy: Entropy = secrets.token_bytes

    def __post_init__(self) -> None:
        super().__post_init__()
        self._desk = Desk(self.id, self.federation, self.layout, self.entropy)
        self._reach: Reach | None = None

    def answer(self, data: bytes, sampler: Sampler, scorer: Scoring, learner: Learner) -> tuple[bytes, Rows]:
        """As `Client.answer`. A question that this client refuses gets a refusal, so that the round goes on
        without it."""
        kind = kind_of(data)
        if kind == "grant":
            raise WireError("grants entries, where updates leave masked and whole")
        if kind not in QUESTIONS:
            self._reach = Reach.of(self.federation.secure, learner.spec)
            return super().answer(data, sampler, scorer, learner)
        try:
            return self._answered(data), []
        except WireError as error:
            return self._desk.refusal(self.state.round, error), []

    def _state_before(self, round: int) -> ClientState:
        """A round whose masked update has left isn't trained again: two sums of one round tell too much."""
        session = self.state.secure
        if session is not None and session.sent and round <= session.round:
            raise WireError(f"asked for round {round} anew, whose masked update has been sent")
        return super()._state_before(round)

    def _upload(self, count: int | None) -> bytes:
        return self._report()

    def _report(self) -> bytes:
        """The update waits for its mask; where the sum fails it is lost, as where a client drops out."""
        state, trained = self.state, self.state.trained
        assert trained is not None and state.base is not None and self._reach is not None
        report = Report(state.round, self.id, state.base_digest, trained.signal, trained.changed)
        session, reply = self._desk.open(report, self._reach.over(largest_of(state.base)))
        self.state = replace(state, secure=session, replies=(reply,))
        return reply

    def _answered(self, data: bytes) -> bytes:
        session, reply = self._desk.answer(self.state.secure, data, self._change)
        state = replace(self.state, secure=session)
        if session.sent:
            base = None if self._outbox.codec == "dense" else state.base
            state = replace(state, trained=None, base=base)
        self.state = state
        return reply

    def _change(self) -> Tensor | None:
        trained, base = self.state.trained, self.state.base
        return None if trained is None or base is None else trained.target - base.float()
