from __future__ import annotations

import math

import pytest
import torch

from grpo.toys import FixedScoring, make_policy, problems_of, sample_groups, spec_of
from hanse.grpo.advantages import informative
from hanse.grpo.learner import Learner
from hanse.grpo.step import (
    assign_advantages,
    charged_rewards,
    grpo_step,
    mean_metrics,
    rewards_of,
    rollout_metrics,
    score_groups,
)
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.sampler import Sampler, Sampling


class Draw:
    """Hands out problems one after the other and remembers how many were asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, n: int):
        start = sum(self.asked)
        self.asked.append(n)
        prompts = [f"{i}+{i}=" for i in range(start, start + n)]
        return problems_of(prompts), [1000 + i for i in range(start, start + n)]


def run(spec, score, policy=None):
    policy = policy or make_policy()
    draw = Draw()
    learner = Learner(policy, spec, 10)
    result = grpo_step(draw, Sampler(policy, Sampling(spec.max_new_tokens)), FixedScoring(score), learner)
    return result, draw


def by_tokens(_, ids):
    return sum(ids) % 3 / 2


def test_a_step_samples_scores_compares_and_learns():
    policy = make_policy()
    before = policy.parameters.sha256()
    result, draw = run(spec_of(), by_tokens, policy)
    assert draw.asked == [4]
    assert [g.size for g in result.groups] == [4] * 4
    for g in result.groups:
        assert g.rewards_G.tolist() == [by_tokens(None, ids) for ids in g.token_ids_G()]
        assert abs(float(g.advantages_G.sum())) < 1e-9
    assert policy.parameters.sha256() != before
    m = result.metrics
    assert m["num_tokens"] == sum(int(g.lengths_G.sum()) for g in result.groups)
    assert m["learning_rate"] == 1e-3
    assert {"time/sample", "time/score", "time/train", "step_time", "grad_norm", "loss"} <= set(m)
    assert m["step_time"] == pytest.approx(m["time/sample"] + m["time/score"] + m["time/train"])


def test_rollout_metrics_by_hand():
    policy = make_policy()
    groups = sample_groups(policy, ("1+2=", "7="), G=2, T=3)
    lengths, ended = [[1, 3], [2, 3]], [[True, False], [True, True]]
    for g, n, e, rewards in zip(groups, lengths, ended, ([0.0, 1.0], [0.5, 0.5]), strict=True):
        g.lengths_G, g.terminated_G = torch.tensor(n), torch.tensor(e)
        g.logp_GT = torch.full((2, 3), -2.0)
        g.rewards_G = torch.tensor(rewards, dtype=torch.float64)
    assign_advantages(groups, spec_of(group_size=2))
    m = rollout_metrics(groups)
    assert m["reward"] == 0.5
    assert m["reward_std"] == pytest.approx(math.sqrt(0.5) / 2)
    assert m["frac_reward_zero_std"] == 0.5
    assert m["policy_grad_signal"] == pytest.approx(0.5 / (math.sqrt(0.5) + 1e-4) / 2)
    assert m["entropy"] == 2.0
    assert m["completions/mean_length"] == 9 / 4
    assert (m["completions/min_length"], m["completions/max_length"]) == (1, 3)
    assert m["completions/clipped_ratio"] == 0.25
    assert m["completions/mean_terminated_length"] == 2


def test_dynamic_sampling_replaces_flat_groups_and_counts_what_that_cost():
    flat_first = {f"{i}+{i}=" for i in range(3)}

    def score(problem, ids):
        return 1.0 if problem.prompt in flat_first else float(sum(ids))

    result, draw = run(spec_of(dynamic_sampling=True), score)
    assert draw.asked == [4, 3]
    assert informative(rewards_of(result.groups)).all()
    assert result.metrics["resampled_groups"] == 3
    assert [g.problem.prompt for g in result.groups] == ["3+3=", "4+4=", "5+5=", "6+6="]


def test_dynamic_sampling_gives_up_after_max_resamples_and_keeps_the_batch_size():
    result, draw = run(spec_of(dynamic_sampling=True, max_resamples=2), lambda *_: 1.0)
    assert draw.asked == [4, 4, 4]
    assert len(result.groups) == 4
    assert result.metrics["resampled_groups"] == 8
    assert result.metrics["frac_reward_zero_std"] == 1


def test_rloo_takes_the_kl_of_whole_sequences_off_the_reward():
    policy = make_policy()
    spec = spec_of(objective="rloo", baseline="leave_one_out", scale="none", beta=0.3)
    learner = Learner(policy, spec, 10)
    reference = make_policy()
    policy.parameters.load(policy.parameters.master * 1.1)
    groups = sample_groups(policy)
    score_groups(groups, Sampler(policy, Sampling(5)), FixedScoring(by_tokens))
    charged = charged_rewards(groups, learner)
    for g, row in zip(groups, charged, strict=True):
        ref = completion_logprobs(reference, [g.prompt_ids], g.tokens_GT.unsqueeze(0), 1.0)[0]
        kl = ((g.logp_GT - ref) * g.mask_GT).sum(-1)
        torch.testing.assert_close(row, g.rewards_G - 0.3 * kl.double(), rtol=1e-5, atol=1e-5)
        assert kl.abs().max() > 0.01


def test_rloo_reports_the_rewards_that_were_given_and_learns_from_the_charged_ones():
    spec = spec_of(objective="rloo", baseline="leave_one_out", scale="none", beta=0.3)
    policy = make_policy()
    learner = Learner(policy, spec, 10)
    policy.parameters.load(policy.parameters.master * 1.1)
    result = grpo_step(Draw(), Sampler(policy, Sampling(5)), FixedScoring(by_tokens), learner)
    given = [by_tokens(None, ids) for g in result.groups for ids in g.token_ids_G()]
    assert result.metrics["reward"] == pytest.approx(sum(given) / 16)
    assert torch.cat([g.rewards_G for g in result.groups]).tolist() == given
    plain = [g.advantages_G.clone() for g in result.groups]
    assign_advantages(result.groups, spec)
    assert not torch.allclose(torch.stack(plain), torch.stack([g.advantages_G for g in result.groups]))


def test_means_over_steps_sum_counts_and_times():
    rows = [
        {"reward": 1.0, "num_tokens": 5, "unscored": 1, "time/train": 0.5, "kl": 3.0},
        {"reward": 0.0, "num_tokens": 7, "unscored": 0, "time/train": 0.25},
    ]
    assert mean_metrics(rows) == {
        "reward": 0.5,
        "num_tokens": 12,
        "unscored": 1,
        "time/train": 0.75,
        "kl": 3.0,
    }


def test_the_same_step_twice_gives_the_same_bits():
    first, second = make_policy(), make_policy()
    run(spec_of(), by_tokens, first)
    run(spec_of(), by_tokens, second)
    assert torch.equal(first.parameters.master, second.parameters.master)


def test_groups_are_scored_as_groups_also_where_neighbours_have_the_same_problem(policy):
    sizes = []

    class Watching(FixedScoring):
        def score(self, *arguments, group_size=None):
            sizes.append(group_size)
            return super().score(*arguments)

    groups = sample_groups(policy, ("1+2=", "1+2="), G=3)
    score_groups(groups, Sampler(policy, Sampling(5)), Watching(lambda problem, ids: float(len(ids))))
    assert sizes == [3]


def test_halved_sampling_batches_are_counted(policy, monkeypatch):
    learner = Learner(policy, spec_of(), 10)
    sampler, whole = Sampler(policy, Sampling(5)), Sampler._sample_batch

    def limited(self, problems, G, seeds):
        if len(problems) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, problems, G, seeds)

    monkeypatch.setattr(Sampler, "_sample_batch", limited)
    grpo_step(Draw(), sampler, FixedScoring(lambda problem, ids: float(len(ids))), learner)
    assert learner.state.counters["oom_halvings"] == sampler.halvings > 0
