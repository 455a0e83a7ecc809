"""The server of a federation: one round, transport-free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hanse.federation.aggregation import weighted_mean
from hanse.federation.messages import Broadcast
from hanse.federation.screening import Screened, screen
from hanse.federation.weighting import WEIGHTINGS
from hanse.federation.wire.dense import DTYPES, decode_dense, digest_of, encode_dense
from hanse.recipe.model import FederationSpec


@dataclass
class ServerState:
    """What survives a crash. `master` is float32, shape (numel,); `round` is the next one to open."""

    master: Tensor
    round: int = 1
    reward_mean: float | None = None
    weighting: Mapping[str, Any] = field(default_factory=dict)
    ledger: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class RoundRecord:
    """What a round did: weights by client, and every upload, accepted or refused with a reason."""

    round: int
    weights: dict[int, float]
    screened: list[Screened]
    bytes_up: int
    bytes_down: int


class Server:
    """Opens rounds and closes them; holds float32 master values whatever dtype is exchanged."""

    def __init__(self, spec: FederationSpec, dtype: str, clients: list[int], state: ServerState) -> None:
        self.spec, self.dtype, self.clients, self.state = spec, dtype, sorted(clients), state
        self._weigh = WEIGHTINGS[spec.weighting]
        self._open: Broadcast | None = None

    def open_round(self) -> Broadcast:
        """What every client receives now. Opening the same round twice gives the same message."""
        values = encode_dense(self.state.master, self.dtype)
        self._open = Broadcast(
            self.state.round, values, self.dtype, digest_of(values), self.state.reward_mean
        )
        return self._open

    def close_round(self, uploads: Mapping[int, bytes]) -> RoundRecord:
        """Screen, weigh, combine. Keeps the model where no upload is usable.

        `uploads` maps client id to the bytes received; their order does not matter.
        """
        if self._open is None:
            raise RuntimeError("no round is open")
        opened = self._open
        base = decode_dense(opened.values, self.dtype, self.state.master.numel())
        known = [k for k in self.clients if k in uploads]
        screened = [screen(uploads[k], k, opened, base) for k in known]
        weights = self._combine([s for s in screened if s.upload is not None], base)
        for refused in (s for s in screened if s.reason is not None):
            self.state.ledger[f"client {refused.client}: {refused.reason}"] += 1
        self.state.round += 1
        self._open = None
        up = sum(len(uploads[k]) for k in known)
        down = len(opened.to_bytes()) * len(self.clients)
        return RoundRecord(opened.round, weights, screened, up, down)

    def _combine(self, good: list[Screened], base: Tensor) -> dict[int, float]:
        if not good:
            return {}
        uploads = [s.upload for s in good if s.upload is not None]
        signals = [upload.signal for upload in uploads]
        norms = [s.norm for s in good]
        weights, self.state.weighting = self._weigh(self.state.weighting, signals, norms)
        decoded = (decode_dense(upload.values, self.dtype, base.numel()) for upload in uploads)
        self.state.master = weighted_mean(self.state.master, base, zip(weights, decoded, strict=True))
        total = max(1, sum(signal.samples for signal in signals))
        self.state.reward_mean = sum(s.reward_mean * s.samples for s in signals) / total
        return {s.client: w for s, w in zip(good, weights, strict=True)}

    def values(self) -> Tensor:
        """The current values as clients will compute with them, in float32."""
        return self.state.master.to(DTYPES[self.dtype]).to(torch.float32)
