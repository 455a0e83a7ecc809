"""What a server sends when it opens a round: one message a client, often the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hanse.federation.messages import Broadcast
from hanse.federation.offset import Lift
from hanse.federation.opened import Opened
from hanse.federation.payload import Codec, pack_vector
from hanse.federation.records import ServerState
from hanse.federation.wire.layout import Layout
from hanse.recipe.federation import FederationSpec


@dataclass(frozen=True)
class Mailing:
    """`reporting`: whether clients report before they upload; `receives`: names of the local method's
    vectors that come with a broadcast."""

    spec: FederationSpec
    layout: Layout
    codec: Codec
    reporting: bool
    receives: tuple[str, ...]

    def broadcasts(
        self, state: ServerState, opened: Opened, held: Mapping[int, str | None], *, whole: bool = False
    ) -> dict[int, bytes]:
        """By client. `held`: the hash of the base that a patch may build on; `whole`: nothing may."""
        extras = {n: pack_vector(state.local[n]) for n in self.receives if n in state.local}
        made: dict[tuple[object, ...], bytes] = {}
        keys: dict[int, tuple[object, ...]] = {}
        for client, patched in held.items():
            entries, prompts = opened.granted.get(client), opened.prompts.get(client)
            lift = None if state.offset is None else state.offset.lift(client, whole=whole)
            keys[client] = key = (patched, entries, prompts, lift and lift.previous)
            if key not in made:
                made[key] = self._broadcast(state, opened, patched, entries, prompts, extras, lift)
        return {client: made[key] for client, key in keys.items()}

    def _broadcast(
        self,
        state: ServerState,
        opened: Opened,
        patched: str | None,
        entries: int | None,
        prompts: int | None,
        extras: Mapping[str, bytes],
        lift: Lift | None,
    ) -> bytes:
        fraction = self.spec.budget.fraction
        return Broadcast(
            round=state.round,
            payload=state.downlink.payload(opened.base, patched, self.layout, self.codec),
            dtype=self.layout.dtype,
            base=opened.digest,
            patched=patched,
            reward_mean=state.reward_mean,
            entries=entries,
            fraction=fraction if entries is None and not self.reporting else None,
            reporting=self.reporting,
            prompts=prompts,
            extras=extras if lift is None else {**extras, "lift": lift.data},
            lift=None if lift is None else (lift.version, lift.previous, lift.rank),
        ).to_bytes()
