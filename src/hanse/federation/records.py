"""What a server remembers from round to round, and what it says about one that is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from hanse.federation.audit import Evidence
from hanse.federation.conduct import Conduct
from hanse.federation.downlink import Downlink
from hanse.federation.local import Vectors
from hanse.federation.offset import Offset
from hanse.federation.screening import Screened
from hanse.federation.server_optimizer import OptimizerState
from hanse.recipe.federation import ScreeningSpec


@dataclass
class ServerState:
    """What survives a crash. `master` is float32, shape (numel,); `round` is the next one to open.

    `weighting` is JSON; `optimizer` and `local` are tensors of the server optimiser and the local method;
    `reported`: changed entries and reward deviation that clients last reported, for lagged grants;
    `informative`: their smoothed shares of informative groups; `offset`: what was lifted into the base, where
    the rule does; `robust`: what a robust rule remembers; `conduct`: how clients have behaved;
    `evidence`: what audits found of them.
    """

    master: Tensor
    round: int = 1
    reward_mean: float | None = None
    weighting: Mapping[str, Any] = field(default_factory=dict)
    optimizer: OptimizerState = field(default_factory=dict)
    local: Vectors = field(default_factory=dict)
    downlink: Downlink = field(default_factory=Downlink)
    reported: dict[int, tuple[int, float]] = field(default_factory=dict)
    informative: dict[int, float] = field(default_factory=dict)
    offset: Offset | None = None
    robust: Vectors = field(default_factory=dict)
    conduct: Conduct = field(default_factory=Conduct)
    evidence: dict[int, Evidence] = field(default_factory=dict)
    ledger: Counter[str] = field(default_factory=Counter)

    def behaved(self, spec: ScreeningSpec, away: Mapping[int, int], screened: Sequence[Screened]) -> None:
        """Note how clients behaved in a round that counts; `away`: those that took no part by quarantine."""
        for client in sorted(set(self.conduct.away(self.round)) - set(away)):
            self.ledger[f"client {client}: back from quarantine early, to make up the quorum"] += 1
        accepted = {s.client: s.lengths for s in screened if s.upload is not None}
        refused = {s.client for s in screened if s.upload is None}
        before, self.conduct = self.conduct, self.conduct.after(self.round, spec, accepted, refused)
        for client in sorted(set(self.conduct.until) - set(before.until)):
            self.ledger[f"client {client}: in quarantine after {spec.quarantine_after} refusals"] += 1


@dataclass(frozen=True)
class SecureRecord:
    """What a secure sum came to: `entries` of a masked vector, `living` clients that it is over, the `step`
    of its fixed point, the L2 `norm` of the mean update. `rejected`: why there is none; `seeded`: keys
    were not from the operating system's randomness, so they hide nothing."""

    entries: int = 0
    living: int = 0
    step: float = 0.0
    norm: float = 0.0
    rejected: str | None = None
    seeded: bool = False


@dataclass(frozen=True)
class PublicRecord:
    """Answers to public problems that clients showed, and that they were sent of others; why what some showed
    was `refused`. Bytes are among the round's."""

    shown: int
    relayed: int
    refused: Sequence[tuple[int, str]] = ()
    bytes_up: int = 0
    bytes_down: int = 0


@dataclass(frozen=True)
class RoundRecord:
    """What a round did: weights by client, and every upload, accepted or refused with a reason. Under a
    robust rule weights are how much of each update is in the result.

    `entries`: changed entries that were accepted; `granted`: entries by client where a budget is set;
    `cosines`: between clients' updates, where the model is small enough to compare them; `lora_residual`: see
    `aggregation.Combined`; `secure`: of a secure sum, where no single update is known; `away`: quarantined
    clients, and for how many rounds still; `public`: where answers were shared.
    """

    round: int
    weights: dict[int, float]
    screened: list[Screened]
    bytes_up: int
    bytes_down: int
    granted: dict[int, int] = field(default_factory=dict)
    cosines: dict[tuple[int, int], float] = field(default_factory=dict)
    lora_residual: float | None = None
    secure: SecureRecord | None = None
    away: Mapping[int, int] = field(default_factory=dict)
    public: PublicRecord | None = None

    @property
    def entries(self) -> int:
        return sum(s.entries for s in self.screened if s.upload is not None)
