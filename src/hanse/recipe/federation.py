"""The `[federation]` part of a recipe: what clients and server exchange, and how updates are combined."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hanse.recipe.audit import AuditSpec
from hanse.recipe.public import PublicSpec
from hanse.recipe.robust import RobustSpec
from hanse.recipe.section import Section
from hanse.recipe.secure import SecureSpec

WeightingName = Literal[
    "samples", "uniform", "fixed", "reward-std", "relative-gain", "task-accuracy", "fairness", "coherence"
]
AggregationName = Literal[
    "mean",
    "norm-equalised",
    "masked",
    "sign-consensus",
    "ffa",
    "fedsa",
    "rolora",
    "flora",
    "flexlora",
    "fedex",
]
LORA_RULES = ("ffa", "fedsa", "rolora", "flora", "flexlora", "fedex")
"""Those that are about LoRA factors."""
ServerOptimizerName = Literal["auto", "plain", "momentum", "nesterov", "adam", "average", "coherent"]
LocalName = Literal["plain", "fedprox", "scaffold", "fednova", "fedadamw", "shared-moment"]


class WeightsSpec(Section):
    """Options of `federation.weighting`; each says which weighting reads it.

    `cap` bounds weights that rest on what clients say of themselves: at most cap / K, the rest shared out
    (reward-std, relative-gain, task-accuracy, fairness, coherence). `std`, `gamma`: reward-std. `ema`: share
    of the past in a smoothed signal (reward-std, fairness, coherence; None: 0) or baseline (relative-gain;
    None: 0.9).
    `times_samples`: multiply by the number of problems. `temperature`, `gain`: the softmax ones.
    `threshold`: spread of rewards below which fairness stays uniform. `fixed`: one weight a client. `tasks`:
    each client's task, within which task-accuracy compares (None: one task).
    """

    cap: float | None = Field(default=2.0, ge=1)
    std: Literal["within", "pooled"] = "within"
    gamma: float = Field(default=1.0, ge=0, le=10)
    ema: float | None = Field(default=None, ge=0, lt=1)
    times_samples: bool = False
    temperature: float = Field(default=1.0, gt=0)
    gain: Literal["global", "own"] = "global"
    threshold: float = Field(default=0.0, ge=0)
    fixed: list[float] | None = None
    tasks: list[str] | None = None


class CalibrationSpec(Section):
    """Per-prompt weights from the gap between a pivot and the group's mean reward; `strength` 0 is off.
    `normalise`: to mean one over these prompts of a batch, or not at all."""

    strength: float = Field(default=0.0, ge=0)
    form: Literal["linear", "exponential"] = "linear"
    pivot: Literal["global", "local", "constant"] = "global"
    constant: float = 0.5
    low: float = Field(default=0.25, ge=0)
    high: float = Field(default=2.0, gt=0)
    normalise: Literal["informative", "all", "none"] = "informative"


class BudgetSpec(Section):
    """Sparse uploads. `fraction` of all changed entries of a round may be sent; None: all, in one exchange.

    `share`: how the round's budget is divided ("own": each client the fraction of its own changes).
    `select`: which entries a client sends: largest change in float32, in the exchange dtype, in units in the
    last place, whole tensors by energy per entry, or the largest of every chunk of 4096. `grant`: "report"
    asks for all signals first (two exchanges), "lagged" uses those of the last round. `error_feedback`:
    unsent changes are added to the next upload, or to the values that the next round starts from, or lost;
    `decay` is what is kept of them from round to round. `bits`: send block-quantised changes (lossy).
    """

    fraction: float | None = Field(default=None, gt=0, le=1)
    share: Literal["signal", "uniform", "own"] = "signal"
    select: Literal["float32", "cast", "ulp", "module", "chunk"] = "float32"
    grant: Literal["report", "lagged"] = "report"
    error_feedback: Literal["upload", "start", "off"] = "upload"
    decay: float = Field(default=1.0, gt=0, le=1)
    bits: Literal[2, 4, 8] | None = None


class ServerSpec(Section):
    """Options of `federation.server_optimizer`. `momentum`: momentum, nesterov (None: 0.9), coherent (None:
    0); `betas`, `tau`: adam; `ema`: share of the past in the average of round parameters (average), or in the
    agreement of successive rounds (coherent), whose smallest gain is `floor`."""

    lr: float = Field(default=1.0, gt=0)
    momentum: float | None = Field(default=None, ge=0, lt=1)
    betas: tuple[float, float] = (0.9, 0.99)
    tau: float = Field(default=1e-3, gt=0)
    ema: float = Field(default=0.8, ge=0, lt=1)
    floor: float = Field(default=0.1, ge=0, le=1)


class LocalSpec(Section):
    """Options of `federation.local`. `mu`: FedProx; `alpha`: FedAdamW's share of the global update."""

    mu: float = Field(default=0.01, ge=0)
    alpha: float = Field(default=0.5, ge=0)


class ScreeningSpec(Section):
    """What a server refuses. `max_norm`: update norms above this multiple of their median over the last
    `norm_rounds` rounds, this one included; `reward_range`: bounds of the reward, from which follow bounds of
    honest signals; `max_samples`: more problems than this, as sample counts are the clients' own.

    After `quarantine_after` refusals, less the uploads accepted since, a client takes no part for
    `quarantine_rounds` rounds, as long as there are enough others (None: never)."""

    max_norm: float | None = Field(default=10.0, gt=1)
    norm_rounds: int = Field(default=10, ge=1)
    reward_range: tuple[float, float] | None = None
    max_samples: int | None = Field(default=None, ge=1)
    quarantine_after: int | None = Field(default=3, ge=1)
    quarantine_rounds: int = Field(default=5, ge=1)


class FederationSpec(Section):
    """How clients' updates are made, sent and combined. `rollouts`: of a round, the same for each client, or
    more for those whose groups are informative. `server_optimizer`: "auto" is "coherent" under signal weights
    and the plain mean, where it was seen to be better (docs/results.md), and "plain" elsewhere, as published
    methods have it."""

    weighting: WeightingName = "samples"
    weights: WeightsSpec = WeightsSpec()
    calibration: CalibrationSpec = CalibrationSpec()
    budget: BudgetSpec = BudgetSpec()
    codec: Literal["auto", "dense", "small", "fast"] = "auto"
    aggregation: AggregationName = "mean"
    server_optimizer: ServerOptimizerName = "auto"
    server: ServerSpec = ServerSpec()
    local: LocalName = "plain"
    local_options: LocalSpec = LocalSpec()
    screening: ScreeningSpec = ScreeningSpec()
    audit: AuditSpec = AuditSpec()
    public: PublicSpec = PublicSpec()
    robust: RobustSpec = RobustSpec()
    secure: SecureSpec = SecureSpec()
    rollouts: Literal["equal", "informative"] = "equal"
    participation: float = Field(default=1.0, gt=0, le=1)
    exchange_dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    moments: Literal["keep", "reset"] = "keep"
    residual: Literal["keep", "discard"] = "keep"

    def wanted(self, clients: int) -> int:
        """How many of so many clients a round is meant to have."""
        return max(1, round(self.participation * clients))

    @property
    def needed(self) -> int:
        """Usable uploads without which a robust rule, if there is one, cannot keep its promise."""
        return self.robust.fewest(self.robust.byzantine) if self.robust.on else 0

    @property
    def screening_in_force(self) -> ScreeningSpec:
        """Without the gate on norms where a robust rule deals with long updates itself: refused ones would
        count as liars found, and honest clients may have moved most."""
        return self.screening.model_copy(update={"max_norm": None}) if self.robust.on else self.screening

    @property
    def optimizer(self) -> str:
        """The server optimiser in force."""
        if self.server_optimizer != "auto":
            return self.server_optimizer
        signals = self.weighting == "reward-std" and self.aggregation == "mean"
        return "coherent" if signals and self.local != "scaffold" else "plain"

    @property
    def exchanges_one_factor(self) -> bool:
        """Whether in every round one of LoRA's factors rests or stays with its client."""
        return self.aggregation in ("ffa", "fedsa", "rolora")

    @property
    def lifts(self) -> bool:
        """Whether part of what LoRA learns goes into the base."""
        return self.aggregation in ("flora", "fedex")

    @property
    def personal(self) -> bool:
        """Whether every client ends with a policy of its own, as part of it never leaves."""
        return self.aggregation == "fedsa"

    def sends_patches(self, dtype: str) -> bool:
        """Whether changes travel rather than values. "auto": where values are cast or selected, or a factor
        rests; not where every float32 value changes."""
        if self.codec != "auto":
            return self.codec != "dense"
        return dtype != "float32" or self.budget.fraction is not None or self.exchanges_one_factor

    def without_exchange(self) -> FederationSpec:
        """What is left of it where one party trains alone: its own optimiser state and residual."""
        return FederationSpec(
            weighting="uniform",
            codec="dense",
            exchange_dtype=self.exchange_dtype,
            moments=self.moments,
            residual=self.residual,
        )
