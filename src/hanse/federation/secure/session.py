"""A client's part in a secure sum: one answer to each question, and that very answer when asked again."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from torch import Tensor

from hanse.federation.aggregation import lora_rule
from hanse.federation.messages import Report
from hanse.federation.secure.entries import exchanged_entries
from hanse.federation.secure.messages import (
    QUESTIONS,
    Advert,
    Delivery,
    Invitation,
    Masked,
    Refusal,
    Request,
    Shares,
    Unmask,
)
from hanse.federation.secure.terms import check_terms
from hanse.federation.wire.frame import WireError, kind_of
from hanse.federation.wire.layout import Layout
from hanse.privacy.secure.fixed_point import Grid, modulus_for, quantise
from hanse.privacy.secure.graph import shares_needed
from hanse.privacy.secure.party import Party
from hanse.privacy.secure.primitives import Entropy
from hanse.privacy.secure.protocol import ProtocolError, Secrets, context_of
from hanse.recipe.federation import FederationSpec

Update = Callable[[], Tensor | None]
"""The change of each entry, float32, shape (numel,); None once it has been sent."""


@dataclass(frozen=True)
class Session:
    """A client's memory of one round's sum; never changed in place. A client that loses it has dropped out.
    `answered`: by kind of question its hash and the reply; `reach`: see `terms.check_terms`."""

    round: int
    party: Party
    invitation: Invitation | None = None
    grid: Grid | None = None
    answered: Mapping[str, tuple[bytes, bytes]] = field(default_factory=dict)
    reach: float | None = None

    @property
    def sent(self) -> bool:
        """Whether the masked update has left."""
        return self.party.stage in ("masked", "over")


class Desk:
    """Answers for one client. `entropy` is the operating system's but in tests, and then says so."""

    def __init__(
        self, client: int, spec: FederationSpec, layout: Layout, entropy: Entropy = secrets.token_bytes
    ) -> None:
        self.client, self.federation, self.layout, self.entropy = client, spec, layout, entropy
        self.spec = spec.secure
        self._rule = lora_rule(spec.aggregation)

    def open(self, report: Report, reach: float | None = None) -> tuple[Session, bytes]:
        """Fresh secrets for this round, and the message that makes their public part known. `reach`: the
        range that the recipe gives for this round's values, where that is known here."""
        party = Party(self.client, context_of(report.round, report.base), Secrets.fresh(self.entropy))
        seeded = self.entropy is not secrets.token_bytes
        advert = Advert(report.to_bytes(), party.secrets.public, seeded)
        return Session(report.round, party, reach=reach), advert.to_bytes()

    def answer(self, session: Session | None, data: bytes, update: Update) -> tuple[Session, bytes]:
        """The reply to a question. Raises WireError for what is out of turn, or asked a second time in other
        words."""
        if session is None:
            raise WireError("there is no secure sum that this client takes part in")
        kind, digest = kind_of(data), hashlib.sha256(data).digest()
        if kind in session.answered:
            asked, reply = session.answered[kind]
            if asked != digest:
                raise WireError(f"a second {kind} in the same round")
            return session, reply
        try:
            after, reply = self._answer(session, kind, data, update)
        except ProtocolError as error:
            raise WireError(str(error)) from error
        return replace(after, answered={**session.answered, kind: (digest, reply)}), reply

    def refusal(self, round: int, error: WireError) -> bytes:
        return Refusal(round, self.client, str(error)).to_bytes()

    def _answer(self, session: Session, kind: str, data: bytes, update: Update) -> tuple[Session, bytes]:
        if kind == QUESTIONS[0]:
            return self._deal(session, Invitation.from_bytes(data))
        if kind == QUESTIONS[1]:
            return self._mask(session, Delivery.from_bytes(data), update)
        return self._reveal(session, Request.from_bytes(data))

    def _deal(self, session: Session, asked: Invitation) -> tuple[Session, bytes]:
        self._belongs(session, asked)
        check_terms(asked, self.federation, session.reach)
        needed = shares_needed(self.spec.threshold, len(asked.peers) + 1)
        try:
            grid = Grid(asked.reach, self.spec.bits, modulus_for(self.spec.bits, asked.addends))
        except ValueError as error:
            raise WireError(str(error)) from error
        party, offer = session.party.deal(asked.peers, needed)
        reply = Shares(session.round, self.client, offer).to_bytes()
        return replace(session, party=party, invitation=asked, grid=grid), reply

    def _mask(self, session: Session, asked: Delivery, update: Update) -> tuple[Session, bytes]:
        self._belongs(session, asked)
        invitation, grid, change = session.invitation, session.grid, update()
        if change is None or invitation is None or grid is None:
            raise WireError("asks for an update that this client does not hold")
        moving = exchanged_entries(self.layout, self._rule, session.round)
        words, _ = quantise(change if moving is None else change[moving], invitation.weight, grid)
        party = session.party.mask(words, asked.sealed)
        return replace(session, party=party), Masked(session.round, self.client, words.tobytes()).to_bytes()

    def _reveal(self, session: Session, asked: Request) -> tuple[Session, bytes]:
        self._belongs(session, asked)
        party, revealed = session.party.reveal(asked.living, asked.dropped)
        return replace(session, party=party), Unmask(session.round, self.client, revealed).to_bytes()

    def _belongs(self, session: Session, asked: Invitation | Delivery | Request) -> None:
        if (asked.round, asked.client) != (session.round, self.client):
            raise WireError(f"a question for client {asked.client} in round {asked.round}")
