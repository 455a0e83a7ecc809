"""The learner: groups with advantages in, an optimiser step out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from hanse.errors import NonFiniteError
from hanse.grpo.batch import (
    Batch,
    fitting_micro_batch,
    micro_batches,
    pack,
    tiles,
    totals,
    without_idle_groups,
)
from hanse.grpo.correction import Correction
from hanse.grpo.objectives import OBJECTIVES, Clipping, LossInputs, Totals, kl_divergence
from hanse.grpo.objectives.base import MAX_LOG_RATIO
from hanse.grpo.optimiser import Moments, Optimiser, learning_rate
from hanse.grpo.part_gradients import part_gradients
from hanse.grpo.reward_weights import Balance
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.memory import is_out_of_memory
from hanse.policy.policy import Policy
from hanse.policy.rollout import Group
from hanse.recipe.model import GrpoSpec

_LOGIT_BYTES = 256 << 20
Result = TypeVar("Result")


@dataclass
class LearnerState:
    """What a learner carries from step to step, and a client from round to round."""

    moments: Moments
    step: int = 0
    non_finite_streak: int = 0
    micro_batch: int | None = None
    counters: Counter[str] = field(default_factory=Counter)
    balance: Balance | None = None


def summed(states: Iterable[LearnerState]) -> dict[str, int]:
    """Counters of several learners."""
    total = Counter[str]()
    for state in states:
        total.update(state.counters)
    return dict(total)


class Learner:
    """Turns groups into optimiser steps on `policy`.

    >>> learner = Learner(policy, spec, total_steps=100)
    >>> metrics = learner.step(groups)      # groups carry rewards and advantages
    """

    def __init__(self, policy: Policy, spec: GrpoSpec, total_steps: int) -> None:
        self.policy, self.spec, self.total_steps = policy, spec, total_steps
        self._objective = OBJECTIVES[spec.objective]
        self._optimiser = Optimiser(policy.parameters.master, spec)
        self.state = LearnerState(self._optimiser.moments)
        self.corrections: Sequence[Correction] = ()
        high = spec.clip_high if spec.clip_high is not None else spec.clip_low
        self._clipping = Clipping(spec.clip_low, high, spec.delta)
        if spec.beta > 0:
            policy.freeze_reference()

    def step(self, groups: Sequence[Group]) -> dict[str, float]:
        """All updates on one batch of groups. Returns metrics under TRL's names.

        Raises NonFiniteError after `max_non_finite_steps` updates in a row with a non-finite gradient;
        such an update is never applied.
        """
        self.policy.model.eval()
        spec, metrics = self.spec, Accumulator()
        whole = pack(groups, mask_truncated=spec.mask_truncated)
        updates = spec.mini_batches
        if self._needs_old_logp:
            whole = self._with_old_logp(whole)
        lr = learning_rate(spec, self.state.step, self.total_steps)
        size = len(whole.prompts_P) // updates
        for _ in range(spec.iterations):
            for i in range(updates):
                part = whole if updates == 1 else whole.select(slice(i * size, (i + 1) * size))
                denominators = totals(part, whole, updates, spec.max_new_tokens)
                self._update(part, denominators, lr, metrics)
        self.state.step += 1
        return {"learning_rate": lr, **metrics.means()}

    @property
    def _needs_old_logp(self) -> bool:
        several = self.spec.iterations * self.spec.mini_batches > 1
        corrected = self.spec.importance_correction != "none"
        return several or corrected

    def _with_old_logp(self, whole: Batch) -> Batch:
        """Old log-probs: the sampler's own where it computes as the learner does, else one more forward."""
        exact = self.policy.computes_in_float32 and self.spec.importance_correction == "none"
        old = whole.sampler_logp_PGT if exact else self.logprobs(whole)
        return Batch(**{**whole.__dict__, "old_logp_PGT": old})

    @torch.no_grad()
    def logprobs(self, batch: Batch) -> Tensor:
        """Log-probs under the current parameters, without gradient. Shape (P, G, T)."""
        P, G, T = batch.tokens_PGT.shape

        def forward(rollouts: int) -> Tensor:
            logp = torch.empty(P, G, T, device=batch.tokens_PGT.device)
            for tile in tiles(P, G, rollouts):
                prompts, tokens = batch.prompts_P[tile[0]], batch.tokens_PGT[tile]
                logp[tile] = completion_logprobs(self.policy, prompts, tokens, self.spec.temperature)
            return logp

        return self._halving(G, T, forward)

    def reference_logprobs(self, batch: Batch) -> Tensor:
        """The same under the reference policy."""
        with self.policy.reference():
            return self.logprobs(batch)

    def part_gradients(self, groups: Sequence[Group], advantages_MPG: Tensor) -> Tensor:
        """What each reward's advantages alone would do to the last layer, float32, shape (M, N)."""
        whole = pack(groups, mask_truncated=self.spec.mask_truncated)
        _, G, T = whole.tokens_PGT.shape

        def work(rollouts: int) -> Tensor:
            return part_gradients(self.policy, self.spec, whole, advantages_MPG, rollouts)

        return self._halving(G, T, work)

    def _micro_batch(self, group_size: int, width: int) -> int:
        vocabulary = self.policy.vocabulary
        affordable = max(1, _LOGIT_BYTES // (4 * vocabulary * width))
        wanted = self.state.micro_batch or self.spec.micro_batch or affordable
        return fitting_micro_batch(wanted, group_size)

    def _update(self, part: Batch, denominators: Totals, lr: float, metrics: Accumulator) -> None:
        busy = part if self.spec.beta > 0 else without_idle_groups(part)
        if not busy.prompts_P or not bool(busy.mask_PGT.any()):
            self.state.counters["skipped_steps"] += 1
            return
        self._accumulate(busy, denominators, metrics)
        self._apply(lr, metrics)

    def _apply(self, lr: float, metrics: Accumulator) -> None:
        """Move the policy by the gradient that was summed up."""
        grad = self.policy.parameters.grad
        assert grad is not None
        master = self.policy.parameters.master
        for correction in self.corrections:
            correction.gradient(grad, master)
        norm = torch.linalg.vector_norm(grad)
        if not bool(norm.isfinite()):
            self._skip_non_finite()
            return
        self.state.non_finite_streak = 0
        grad.mul_((self.spec.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        self._optimiser.moments = self.state.moments
        self._optimiser.update(grad, lr)
        for correction in self.corrections:
            correction.stepped(master, lr)
        self.policy.parameters.push()
        metrics.add("grad_norm", float(norm), 1)

    def _skip_non_finite(self) -> None:
        self.state.counters["non_finite_steps"] += 1
        self.state.non_finite_streak += 1
        if self.state.non_finite_streak >= self.spec.max_non_finite_steps:
            raise NonFiniteError(
                f"grpo.lr: {self.state.non_finite_streak} updates in a row had a non-finite gradient, none "
                f"was applied. Lower grpo.lr (now {self.spec.lr:g}) or grpo.max_grad_norm, or use float32."
            )

    def _accumulate(self, busy: Batch, denominators: Totals, metrics: Accumulator) -> None:
        """Sum the gradients of all micro-batches."""
        _, G, T = busy.tokens_PGT.shape

        def sum_up(rollouts: int) -> Accumulator:
            attempt = Accumulator()
            self.policy.parameters.start_gradients()
            for micro in micro_batches(busy, rollouts):
                self._backward(micro, denominators, attempt)
            return attempt

        metrics.merge(self._halving(G, T, sum_up))

    def _halving(self, group_size: int, width: int, work: Callable[[int], Result]) -> Result:
        """`work` with the micro-batch in force; where memory runs out, again with half of it."""
        while True:
            rollouts = self._micro_batch(group_size, width)
            try:
                return work(rollouts)
            except RuntimeError as error:
                if rollouts == 1 or not is_out_of_memory(error):
                    raise
            self.state.micro_batch = fitting_micro_batch(rollouts // 2, group_size)
            self.state.counters["oom_halvings"] += 1

    def _backward(self, micro: Batch, denominators: Totals, metrics: Accumulator) -> None:
        P, G, T = micro.tokens_PGT.shape
        logp = completion_logprobs(self.policy, micro.prompts_P, micro.tokens_PGT, self.spec.temperature)
        old = logp.detach() if micro.old_logp_PGT is None else micro.old_logp_PGT
        penalty = self._penalty(logp, micro, metrics)
        inputs = LossInputs(
            logp_NT=logp.view(P * G, T),
            old_logp_NT=old.reshape(P * G, T),
            advantages_N=micro.advantages_PG.reshape(P * G),
            mask_NT=micro.mask_PGT.reshape(P * G, T),
            totals=denominators,
            clipping=self._clipping,
            advantages_NT=None if micro.advantages_PGT is None else micro.advantages_PGT.reshape(P * G, T),
            penalty_NT=None if penalty is None else penalty.view(P * G, T),
            weight_NT=self._correction(old, micro),
        )
        loss = self._objective(inputs)
        loss.value.backward()
        self.policy.parameters.collect_gradients()
        metrics.record_loss(loss.value.detach(), loss.sums)
        gap = (logp.detach() - micro.sampler_logp_PGT).abs()[micro.mask_PGT]
        metrics.add("sampling/sampling_logp_difference/mean", float(gap.sum()), gap.numel())

    def _penalty(self, logp: Tensor, micro: Batch, metrics: Accumulator) -> Tensor | None:
        if self.spec.beta == 0 or self.spec.objective == "rloo":
            return None
        with torch.no_grad(), self.policy.reference():
            ref = completion_logprobs(self.policy, micro.prompts_P, micro.tokens_PGT, self.spec.temperature)
        kl = kl_divergence(logp, ref, self.spec.kl)
        active = micro.mask_PGT
        metrics.add("kl", float(kl.detach()[active].sum()), int(active.sum()))
        clamped = ((ref - logp.detach()).abs() > MAX_LOG_RATIO) & active
        metrics.add("kl_clamped_fraction", float(clamped.sum()), int(active.sum()))
        return self.spec.beta * kl

    def _correction(self, old: Tensor, micro: Batch) -> Tensor | None:
        """Importance weights between the learner's policy at sampling time and what was sampled from."""
        if self.spec.importance_correction == "none":
            return None
        cap = self.spec.importance_cap
        weight = (old - micro.behaviour_logp_PGT).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
        if self.spec.importance_correction == "truncate":
            weight = weight.clamp(max=cap)
        else:
            weight = torch.where((weight <= cap) & (weight >= 1 / cap), weight, 0.0)
        return weight.reshape(-1, weight.shape[-1])


class Accumulator:
    """Sums and counts of a step's metrics."""

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._updates = 0

    def add(self, name: str, total: float, count: int) -> None:
        self._sums[name] += total  # type: ignore[assignment]
        self._counts[name] += count

    def record_loss(self, value: Tensor, sums: dict[str, Tensor]) -> None:
        self._sums["loss"] += float(value)  # type: ignore[assignment]
        self._counts["loss"] = 1
        clippable = int(sums["clippable"])
        low, high = int(sums["clipped_low"]), int(sums["clipped_high"])
        self.add("clip_ratio/low_mean", low, clippable)
        self.add("clip_ratio/high_mean", high, clippable)
        self.add("clip_ratio/region_mean", low + high, clippable)

    def merge(self, other: Accumulator) -> None:
        self._updates += 1
        self._sums.update(other._sums)
        self._counts.update(other._counts)

    def means(self) -> dict[str, float]:
        return {name: total / max(1, self._counts[name]) for name, total in self._sums.items()}
