"""One GRPO step: draw, sample, score, compare within groups, learn."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from hanse.grpo.advantages import group_advantages, group_mean_std, informative
from hanse.grpo.balancing import balance, parts_of
from hanse.grpo.batch import pack, stack_padded
from hanse.grpo.learner import Learner
from hanse.grpo.screen import Draw, Rollouts, fresh_groups, joined_groups, screen_then_deepen
from hanse.grpo.shaping.shape import Metrics, Shaped, mass_of_equal_groups, shape_rewards, token_credit
from hanse.policy.policy import Policy
from hanse.policy.rollout import Group, length_mask
from hanse.policy.sampler import Sampler
from hanse.recipe.model import GrpoSpec
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scores import Scores

ERRORS = "errors/"
_SUMMED = ("time/", "unscored", "resampled", "num_tokens", "rollouts", "step_time")


class Scoring(Protocol):
    """Anything that scores completions, the sandboxed `Scorer` above all."""

    def score(
        self,
        problems_N: Sequence[Problem],
        completions_N: Sequence[str],
        completion_ids_N: Sequence[list[int]] | None = None,
        *,
        group_size: int | None = None,
    ) -> Scores: ...


@dataclass(frozen=True)
class StepResult:
    """Groups with rewards, and the step's metrics.

    They are those that were trained on, with advantages; with screening, the first looks, as the others are
    no fair sample of the prompts.
    Metrics under `ERRORS` carry a message of a reward function in their name and count its completions.
    """

    groups: list[Group]
    metrics: dict[str, float]


class Stopwatch:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now


def grpo_step(
    draw: Draw,
    sampler: Sampler,
    scorer: Scoring,
    learner: Learner,
    weigh: Callable[[Sequence[Group]], None] | None = None,
    prompts: int | None = None,
) -> StepResult:
    """Run one step and update the learner's policy in place. `weigh` may scale groups' advantages; `prompts`
    stands in for the recipe's `prompts_per_step`."""
    spec, watch = learner.spec, Stopwatch()
    if prompts is not None:
        spec = spec.model_copy(update={"prompts_per_step": prompts})
    gathered = _Gathered()
    halvings = sampler.halvings
    groups, looks = _gather(gathered, draw, sampler, scorer, spec, watch)
    if sampler.halvings > halvings:
        learner.state.counters["oom_halvings"] += sampler.halvings - halvings
    shaped = compare(groups, spec, learner, sampler.policy) if groups[0].advantages_G is None else {}
    if weigh is not None:
        weigh(groups)
    metrics = rollout_metrics(groups) | gathered.metrics() | shaped
    watch.lap("score")
    metrics |= learner.step(groups)
    watch.lap("train")
    metrics |= {f"time/{phase}": seconds for phase, seconds in watch.seconds.items()}
    metrics["step_time"] = sum(watch.seconds.values())
    return StepResult(looks, metrics)


def _gather(
    gathered: _Gathered, draw: Draw, sampler: Sampler, scorer: Scoring, spec: GrpoSpec, watch: Stopwatch
) -> tuple[list[Group], list[Group]]:
    """The groups to train on, and those that are a fair sample of the prompts."""
    if spec.screening == "none":
        groups = gathered.fill(draw, sampler, scorer, spec, watch)
        return groups, groups
    screening = screen_then_deepen(draw, gathered.rollouts(sampler, scorer, watch), spec)
    groups = joined_groups(screening) if spec.screening == "joined" else fresh_groups(screening, spec)
    return groups or screening.screened, screening.screened


class _Gathered:
    """The groups of one step, and what gathering them cost."""

    def __init__(self) -> None:
        self.tokens = 0
        self.resampled = 0
        self.count = 0
        self.failures: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.values: dict[str, list[float]] = {}

    def fill(
        self, draw: Draw, sampler: Sampler, scorer: Scoring, spec: GrpoSpec, watch: Stopwatch
    ) -> list[Group]:
        """Sample and score `prompts_per_step` groups; with dynamic sampling (DAPO), replace those whose
        rewards are all equal, `max_resamples` times at most, and keep some of them only to fill up."""
        wanted = spec.prompts_per_step
        groups: list[Group] = []
        spare: list[Group] = []
        for attempt in range(1 + (spec.max_resamples if spec.dynamic_sampling else 0)):
            missing = wanted - len(groups)
            if missing == 0:
                break
            self.resampled += missing if attempt else 0
            problems, seeds = draw(missing)
            new = self.rollouts(sampler, scorer, watch)(problems, spec.group_size, seeds)
            if spec.dynamic_sampling:
                useful = informative(rewards_of(new)).tolist()
                spare += [g for g, use in zip(new, useful, strict=True) if not use]
                new = [g for g, use in zip(new, useful, strict=True) if use]
            groups += new
        return groups + spare[: wanted - len(groups)]

    def rollouts(self, sampler: Sampler, scorer: Scoring, watch: Stopwatch) -> Rollouts:
        """Sampling and scoring, booked here."""

        def sampled(problems: Sequence[Problem], size: int, seeds: Sequence[int]) -> list[Group]:
            groups = sampler.sample(problems, size, seeds)
            watch.lap("sample")
            self._score(groups, sampler, scorer)
            watch.lap("score")
            self.count += size * len(problems)
            return groups

        return sampled

    def _score(self, groups: list[Group], sampler: Sampler, scorer: Scoring) -> None:
        scores = score_groups(groups, sampler, scorer)
        self.tokens += int(torch.cat([g.lengths_G for g in groups]).sum())
        self.failures.update(scores.failures)
        self.errors.update(scores.errors)
        for name, values in zip(scores.names_F, scores.values_FN, strict=True):
            self.values.setdefault(name, []).extend(values.tolist())

    def metrics(self) -> dict[str, float]:
        means: dict[str, float] = {"num_tokens": self.tokens, "resampled_groups": self.resampled}
        means["rollouts"] = self.count
        for name, values in self.values.items():
            tensor = torch.tensor(values, dtype=torch.float64)
            known = tensor[~tensor.isnan()]
            if known.numel():
                means[f"rewards/{name}/mean"] = float(known.mean())
                means[f"rewards/{name}/std"] = float(known.std()) if known.numel() > 1 else 0.0
        means |= {f"unscored/{reason}": count for reason, count in self.failures.items()}
        means |= {ERRORS + message: count for message, count in self.errors.items()}
        means["unscored"] = sum(self.failures.values())
        return means


def score_groups(groups: Sequence[Group], sampler: Sampler, scorer: Scoring) -> Scores:
    """Score all completions of `groups`, which are of one size, and write their rewards into them."""
    ids = [row for g in groups for row in g.token_ids_G()]
    problems = [g.problem for g in groups for _ in range(g.size)]
    scores = scorer.score(problems, sampler.policy.decode(ids), ids, group_size=groups[0].size)
    rewards = torch.from_numpy(scores.totals_N.copy())
    start = 0
    for g in groups:
        g.rewards_G = rewards[start : start + g.size]
        g.parts = parts_of(scores, slice(start, start + g.size))
        start += g.size
    return scores


def rewards_of(groups: Sequence[Group]) -> Tensor:
    """Rewards of scored groups, NaN = unscored. Shape (P, G)."""
    return torch.stack([g.rewards_G for g in groups if g.rewards_G is not None])


def compare(groups: Sequence[Group], spec: GrpoSpec, learner: Learner, policy: Policy) -> Metrics:
    """Write advantages into scored groups, of their rewards as the recipe shapes them; metrics of shaping."""
    if spec.reward_weights.apart and groups[0].parts is not None:
        return balance(groups, spec, learner)
    rewards, shaping = rewards_of(groups), spec.shaping
    shaped = Shaped(rewards, {})
    texts = [policy.decode(g.token_ids_G()) for g in groups] if shaping.enabled else []
    if shaping.enabled:
        progress = learner.state.step / max(1, learner.total_steps)
        shaped = shape_rewards(groups, texts, rewards, shaping, progress)
    metrics, own = dict(shaped.metrics), shaped.rewards_PG
    if shaping.bot.enabled:
        scaled = spec.scale != "none"
        metrics |= token_credit(groups, texts, own, shaping.bot, policy.decode, scaled=scaled)
    else:
        charged = spec.objective == "rloo" and spec.beta > 0
        assign_advantages(groups, spec, charged_rewards(groups, learner, own) if charged else own)
    return metrics | mass_of_equal_groups(groups, rewards) if shaping.enabled else metrics


def assign_advantages(groups: Sequence[Group], spec: GrpoSpec, rewards_PG: Tensor | None = None) -> None:
    """Write advantages into all groups at once (their batch std, if asked for, spans them all).

    They come from the groups' own rewards unless others are given.
    """
    rewards = rewards_of(groups) if rewards_PG is None else rewards_PG
    advantages = group_advantages(rewards, baseline=spec.baseline, scale=spec.scale)
    for g, row in zip(groups, advantages, strict=True):
        g.advantages_G = row


def charged_rewards(groups: Sequence[Group], learner: Learner, rewards_PG: Tensor | None = None) -> Tensor:
    """Rewards less RLOO's KL: beta times log(policy / reference) of each whole sequence. Shape (P, G).

    They are the groups' own unless others are given.
    """
    batch = pack([replace(g, advantages_G=torch.zeros(g.size)) for g in groups])
    ref = learner.reference_logprobs(batch)
    divergence = torch.where(batch.mask_PGT, batch.sampler_logp_PGT - ref, 0.0).sum(-1).double()
    rewards = rewards_of(groups) if rewards_PG is None else rewards_PG
    return rewards - learner.spec.beta * divergence.cpu()


def rollout_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Reward, signal and length statistics of scored groups, under TRL's names.

    `reward_std` is the mean within-group std of the final reward. `entropy` is the mean of -log p over the
    sampled tokens: an unbiased estimate of the policy's entropy that costs nothing. `policy_grad_signal`
    is the mean absolute advantage; on-policy, the loss itself is near 0 by construction.
    """
    rewards = rewards_of(groups)
    advantages = torch.stack([g.advantages_G for g in groups if g.advantages_G is not None])
    mean_P, std_P = group_mean_std(rewards)
    counted = (~rewards.isnan()).any(-1)
    lengths = torch.cat([g.lengths_G for g in groups])
    ended = torch.cat([g.terminated_G for g in groups])
    logp = stack_padded([g.logp_GT for g in groups]).flatten(0, 1)
    surprise = -logp[length_mask(lengths, logp.shape[-1])].double().sum()
    lengths = lengths.double()
    metrics = {
        "reward": float(mean_P[counted].mean()) if bool(counted.any()) else None,
        "reward_std": float(std_P[counted].mean()) if bool(counted.any()) else None,
        "frac_reward_zero_std": 1 - float(informative(rewards).double().mean()),
        "policy_grad_signal": float(advantages.abs().mean()),
        "entropy": float(surprise / lengths.sum()),
        "completions/mean_length": float(lengths.mean()),
        "completions/min_length": float(lengths.min()),
        "completions/max_length": float(lengths.max()),
        "completions/clipped_ratio": float((~ended).double().mean()),
        "completions/mean_terminated_length": float(lengths[ended].mean()) if bool(ended.any()) else None,
    }
    return {name: value for name, value in metrics.items() if value is not None}


def mean_metrics(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean over steps of each metric; counts, tokens and seconds are summed."""
    names = dict.fromkeys(name for row in rows for name in row)
    merged = {}
    for name in names:
        values = [row[name] for row in rows if name in row]
        total = sum(values)
        merged[name] = total if name.startswith(_SUMMED) else total / len(values)
    return merged
