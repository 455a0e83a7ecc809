"""A server that sees signals and sums, and no client's update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hanse.federation.records import RoundRecord, ServerState
from hanse.federation.secure.outcome import settle
from hanse.federation.secure.rounds import SecureRound
from hanse.federation.secure.terms import largest_of
from hanse.federation.server import Conversation, Server
from hanse.federation.wire.layout import Layout
from hanse.privacy.secure.graph import clients_needed
from hanse.recipe.federation import FederationSpec
from hanse.recipe.secure import Reach


class SecureServer(Server):
    """As `Server`, but a round is a broadcast and a secure sum. `reach`: how far an entry may move."""

    def __init__(
        self,
        spec: FederationSpec,
        layout: Layout,
        clients: Sequence[int],
        state: ServerState,
        *,
        reach: Reach,
        **settings: Any,
    ) -> None:
        super().__init__(spec, layout, clients, state, **settings)
        self.reach = reach

    @property
    def least(self) -> int:
        """Living clients without whom there is no sum."""
        share, clients = self.spec.secure.threshold, self.spec.wanted(len(self.clients))
        return max(super().least, clients_needed(share, clients))

    def converse(self) -> Conversation:
        """One round, as messages that go out and the replies that come back."""
        replies = yield from self._begun()
        opened = self._opened()
        reach = self.reach.over(largest_of(opened.base))
        weighting, seed = self.state.weighting, self.seed
        talk = SecureRound(self.spec, opened.screen, weighting, seed, reach, self.needed)
        outcome = yield from talk.converse(opened.clients, replies)
        outcome.bytes_up += opened.bytes_up
        outcome.bytes_down += opened.bytes_down
        if self.codec != "dense":
            self.state.downlink.answered(list(outcome.joined), opened.digest, opened.base)
        record: RoundRecord = settle(outcome, self._combination, self.state, opened.base)
        self._open = None
        return record
