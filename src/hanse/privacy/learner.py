"""A learner that sees of each group a clipped gradient, and only their sum with noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hanse.grpo.batch import Batch, micro_batches, pack, without_idle_groups
from hanse.grpo.learner import Accumulator, Learner
from hanse.grpo.objectives import Totals
from hanse.grpo.optimiser import learning_rate
from hanse.policy.functional_llama import is_plain
from hanse.policy.rollout import Group
from hanse.privacy.clipping import clipped_sum
from hanse.privacy.noise import Stream

_VALUES_AT_ONCE = 1 << 26
"""Entries of groups' gradients that are held at once."""


@dataclass(frozen=True)
class Query:
    """What is asked of a step's groups: the sum of their gradients, none longer than `clip`, and noise with a
    standard deviation of `noise` times `clip`; both over `expected` groups, however many there are."""

    clip: float
    noise: float
    expected: int

    def add_noise(self, total: Tensor, stream: Stream) -> None:
        """To the sum over groups, already divided, shape (numel,): added and rounded to float32 as one."""
        if self.noise == 0:
            return
        deviation, start = self.noise * self.clip / self.expected, 0
        for normal in stream.normals(total.numel()):
            part = total[start : start + len(normal)]
            part.copy_(normal.mul_(deviation).to(part.device).add_(part))
            start += len(normal)

    def totals(self, group_size: int, max_tokens: int) -> Totals:
        """Denominators that know nothing of a batch. Objectives that divide by its tokens are refused."""
        rollouts = float(self.expected * group_size)
        return Totals(rollouts, torch.nan, torch.nan, rollouts, float(max_tokens))


class PrivateLearner(Learner):
    """A `Learner` with steps whose result is differentially private in each group."""

    def private_step(self, groups: Sequence[Group], query: Query, noise: Stream) -> dict[str, float]:
        """One update, whatever `groups` there are: none, or none with an advantage, is noise alone.

        Of the metrics only `learning_rate` and `grad_norm`, that of
        the noised gradient, are made of what may be told.
        """
        self.policy.model.eval()
        metrics, lr = Accumulator(), learning_rate(self.spec, self.state.step, self.total_steps)
        total = self.clipped_sum(groups, query, metrics)
        self.policy.parameters.start_gradients()
        assert self.policy.parameters.grad is not None
        query.add_noise(total, noise)
        self.policy.parameters.grad.copy_(total)
        self._apply(lr, metrics)
        self.state.step += 1
        return {"learning_rate": lr, **metrics.means()}

    def clipped_sum(self, groups: Sequence[Group], query: Query, metrics: Accumulator) -> Tensor:
        """Sum of clipped gradients over `expected`, float32, shape (numel,)."""
        zeros = torch.zeros_like(self.policy.parameters.master)
        if not groups:
            return zeros
        whole = pack(groups, mask_truncated=self.spec.mask_truncated)
        if self._needs_old_logp:
            whole = self._with_old_logp(whole)
        busy = whole if self.spec.beta > 0 else without_idle_groups(whole)
        if not busy.prompts_P or not bool(busy.mask_PGT.any()):
            return zeros
        _, G, T = busy.tokens_PGT.shape
        totals, clip = query.totals(G, self.spec.max_new_tokens), query.clip / query.expected

        def sum_up(rollouts: int) -> tuple[Tensor, Accumulator]:
            attempt, total = Accumulator(), torch.zeros_like(zeros)
            for gradients in self._gradients(busy, totals, rollouts, attempt):
                total.add_(clipped_sum(gradients, clip))
            return total, attempt

        total, attempt = self._halving(G, T, sum_up)
        metrics.merge(attempt)
        return total

    def _gradients(
        self, busy: Batch, totals: Totals, rollouts: int, metrics: Accumulator
    ) -> Iterator[list[Tensor]]:
        """Each group's gradient, some groups at a time: parts of shape (P, n)."""
        parameters, G = self.policy.parameters, busy.tokens_PGT.shape[1]
        together = min(rollouts // G, _VALUES_AT_ONCE // parameters.numel)
        if self.spec.beta > 0 or together < 2 or not is_plain(self.policy.model):
            yield from self._one_by_one(busy, totals, rollouts, metrics)
            return
        parameters.start_gradients()
        for micro in micro_batches(busy, together * G):
            with parameters.by_group(len(micro.prompts_P)) as sinks:
                self._backward(micro, totals, metrics)
                yield [sink.rows for sink in sinks]

    def _one_by_one(
        self, busy: Batch, totals: Totals, rollouts: int, metrics: Accumulator
    ) -> Iterator[list[Tensor]]:
        """For any model: what a group's micro-batches sum up to is its gradient."""
        parameters, G = self.policy.parameters, busy.tokens_PGT.shape[1]
        for i in range(len(busy.prompts_P)):
            parameters.start_gradients()
            for micro in micro_batches(busy.select([i]), min(rollouts, G)):
                self._backward(micro, totals, metrics)
            assert parameters.grad is not None
            yield [parameters.grad.unsqueeze(0)]
