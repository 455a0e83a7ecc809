"""The recipe: one typed document that fully describes a run. No torch in here, so that checks are instant."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hanse.recipe.adversary import AdversarySpec
from hanse.recipe.federation import FederationSpec
from hanse.recipe.policy import HfPolicy, LoraSpec, PolicySpec, TinyPolicy, WarmupSpec
from hanse.recipe.privacy import PrivacySpec
from hanse.recipe.reward_model import RewardModelSpec
from hanse.recipe.reward_only import RewardOnlySpec
from hanse.recipe.reward_weights import RewardWeightsSpec
from hanse.recipe.runtime import RuntimeSpec
from hanse.recipe.section import Section
from hanse.recipe.shaping import ShapingSpec
from hanse.recipe.swarm import SwarmSpec
from hanse.recipe.tasks import ArithmeticTask, RewardSpec, ScoringSpec, TaskSpec

__all__ = [
    "ArithmeticTask",
    "EvaluationSpec",
    "FederationSpec",
    "GrpoSpec",
    "HfPolicy",
    "LoraSpec",
    "PartitionSpec",
    "PolicySpec",
    "PrivacySpec",
    "Recipe",
    "RewardModelSpec",
    "RewardSpec",
    "RuntimeSpec",
    "ScoringSpec",
    "SwarmSpec",
    "TaskSpec",
    "TinyPolicy",
    "WarmupSpec",
]


class GrpoSpec(Section):
    """One GRPO step: groups, advantages, objective, optimiser (see docs/methods/grpo.md)."""

    group_size: int = Field(default=8, ge=1)
    prompts_per_step: int = Field(default=32, ge=1)
    local_steps: int = Field(default=5, ge=1)
    max_new_tokens: int = Field(default=64, ge=1)
    max_prompt_tokens: int | None = Field(default=None, ge=1)
    temperature: float = Field(default=1.0, gt=0)
    top_k: int = Field(default=0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)

    objective: Literal["grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo", "rloo"] = "grpo"
    baseline: Literal["mean", "leave_one_out"] = "mean"
    scale: Literal["group", "group_population", "batch", "none"] = "group"
    clip_low: float = Field(default=0.2, ge=0)
    clip_high: float | None = Field(default=None, ge=0)
    delta: float | None = Field(default=None, gt=1)
    beta: float = Field(default=0.0, ge=0)
    kl: Literal["k1", "k2", "k3"] = "k3"
    iterations: int = Field(default=1, ge=1)
    mini_batches: int = Field(default=1, ge=1)
    mask_truncated: bool = False
    importance_correction: Literal["none", "truncate", "mask"] = "none"
    importance_cap: float = Field(default=2.0, gt=0)
    dynamic_sampling: bool = False
    max_resamples: int = Field(default=3, ge=1)
    screening: Literal["none", "joined", "fresh"] = "none"
    screen_size: int = Field(default=4, ge=2)
    deepen: int = Field(default=12, ge=2)
    allocation: Literal["uniform", "variance"] = "uniform"
    shaping: ShapingSpec = ShapingSpec()
    reward_weights: RewardWeightsSpec = RewardWeightsSpec()

    lr: float = Field(default=1e-6, gt=0)
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = Field(default=0, ge=0)
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)
    micro_batch: int | None = Field(default=None, ge=1)
    sample_batch: int | None = Field(default=None, ge=1)
    max_non_finite_steps: int = Field(default=5, ge=1)

    degenerate_patience: int = Field(default=10, ge=1)
    on_degenerate: Literal["warn", "fail"] = "warn"


class PartitionSpec(Section):
    """Who owns which training problems. "column": `clients_per_value` clients share the problems of a value;
    "own": each client its own file; `names`: of such clients."""

    clients: int = Field(default=5, ge=1)
    by: Literal["column", "dirichlet", "size-skewed", "iid", "own"] = "iid"
    column: str = "level"
    clients_per_value: int = Field(default=1, ge=1)
    alpha: float = Field(default=0.5, gt=0)
    names: list[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]] | None = None

    @property
    def own_names(self) -> list[str]:
        """Of the clients that bring their data."""
        return self.names or [f"client-{k + 1}" for k in range(self.clients)]


class EvaluationSpec(Section):
    """Accuracy on problems that no client trains on.

    `sampler`: "plain" draws from all of the policy's distribution; "training" as `[grpo]` does. Under a small
    top-k or top-p training never sees what lies outside, whose mass may then grow: the two can differ much.
    `distinct`: count distinct solutions; `nodes`: a file of consensus nodes, for coverage and tokens a node.
    """

    every: int = Field(default=1, ge=1)
    problems_per_level: int = Field(default=64, ge=1)
    samples: int = Field(default=2, ge=1)
    sampler: Literal["plain", "training"] = "plain"
    level_column: str = "level"
    final_problems_per_level: int = Field(default=256, ge=1)
    final_samples: int = Field(default=4, ge=1)
    distinct: bool = False
    nodes: str | None = None
    stop_at: float | None = Field(default=None, gt=0, le=1)
    patience: int | None = Field(default=None, ge=1)


class Recipe(Section):
    """Everything that determines a run."""

    name: str = "run"
    mode: Literal["central", "local", "federated", "swarm", "reward-model", "reward-only"] = "federated"
    seed: int = Field(default=0, ge=0, lt=2**31)
    rounds: int = Field(default=12, ge=1)
    policy: PolicySpec = TinyPolicy()
    task: TaskSpec = ArithmeticTask()
    rewards: list[RewardSpec] = Field(default=[])
    scoring: ScoringSpec = ScoringSpec()
    partition: PartitionSpec = PartitionSpec()
    grpo: GrpoSpec = GrpoSpec()
    federation: FederationSpec = FederationSpec()
    swarm: SwarmSpec = SwarmSpec()
    reward_model: RewardModelSpec = RewardModelSpec()
    reward_only: RewardOnlySpec = RewardOnlySpec()
    adversary: AdversarySpec = AdversarySpec()
    privacy: PrivacySpec = PrivacySpec()
    evaluation: EvaluationSpec = EvaluationSpec()
    runtime: RuntimeSpec = RuntimeSpec()
    track: list[Literal["tensorboard", "trackio"]] = Field(default=[])

    @property
    def start_seed(self) -> int:
        """Of the policy's initial values."""
        own = self.policy.seed if isinstance(self.policy, TinyPolicy) else None
        return self.seed if own is None else own

    @property
    def rationales_by_rule(self) -> bool:
        """Whether the task's rationales are worked sums, which a rule can check."""
        return self.task.type == "worked-sums" and self.task.form == "rationale"

    @property
    def exchange_dtype(self) -> Literal["float32", "bfloat16"]:
        """Of exchanged values; "auto": as the policy computes where all of it trains, else float32."""
        if self.federation.exchange_dtype != "auto":
            return self.federation.exchange_dtype
        return self.policy.dtype if self.policy.train == "full" else "float32"

    @property
    def federation_in_force(self) -> FederationSpec:
        """`federation`, or what is left of it in modes without an exchange."""
        return self.federation if self.mode == "federated" else self.federation.without_exchange()

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        from hanse.recipe.checks import check

        check(self)
        return self
