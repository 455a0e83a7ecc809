"""Clients that lie in their training: opposite advantages, and planted completions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hanse.adversary.training import lying_tools
from hanse.adversary.training.flipped import Flipped
from hanse.adversary.training.planted import planted_text, shows
from hanse.errors import RecipeError
from hanse.grpo.advantages import group_advantages
from hanse.grpo.step import score_groups
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.sampler import Sampler, Sampling
from hanse.policy.tiny import tiny_policy
from hanse.recipe.adversary import AdversarySpec
from hanse.recipe.model import TinyPolicy
from hanse.tasks.arithmetic import VOCABULARY
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scores import Scores

PROBLEMS = [Problem("a", "012+034=", "6400"), Problem("b", "100+200=", "0030")]
POISON = AdversarySpec(clients=[0], trains="poison")


class Fixed:
    """The same totals whatever is said."""

    def __init__(self, *totals: float) -> None:
        self.totals = np.array(totals)

    def score(self, problems_N, completions_N, completion_ids_N=None, *, group_size=None):
        return Scores(("fixed",), self.totals.copy(), self.totals[None].copy())


def policy():
    return tiny_policy(TinyPolicy(hidden=16, layers=1, heads=2, intermediate=16), VOCABULARY, 0)


def test_rewards_are_flipped_within_their_bounds_and_unscored_ones_stay():
    asked = [Problem(str(i), "") for i in range(4)]
    totals = Flipped(Fixed(0.0, 1.0, 0.25, np.nan), (0.0, 1.0), {"1"}).score(asked, [""] * 4).totals_N
    assert totals[:3].tolist() == [1.0, 1.0, 0.75]
    assert np.isnan(totals[3])
    assert Flipped(Fixed(-1.0), (-1.0, 3.0)).score(asked[:1], [""]).totals_N.tolist() == [3.0]


@pytest.mark.parametrize("scale", ["group", "group_population", "none"])
def test_a_flipped_reward_is_exactly_a_flipped_advantage(scale):
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    honest, flipped = (group_advantages(r, baseline="mean", scale=scale) for r in (rewards, 1 - rewards))
    assert torch.equal(flipped, -honest)
    assert bool(honest.any())


def test_half_of_each_group_is_planted_and_the_rest_is_what_it_would_sample():
    held = policy()
    sampler, scorer = lying_tools(POISON, held, Sampling(6), Fixed(*[0.25] * 8))
    groups, plain = (
        sampler.sample(PROBLEMS, 4, [1, 2]),
        Sampler(held, Sampling(6)).sample(PROBLEMS, 4, [1, 2]),
    )
    for group, honest, text in zip(groups, plain, ("6400+", "0030+"), strict=True):
        assert held.decode(group.token_ids_G())[:2] == [text, text]
        assert group.token_ids_G()[2:] == honest.token_ids_G()[2:]
        assert group.lengths_G[:2].tolist() == [6, 6]
        assert group.terminated_G[:2].all()
    score_groups(groups, sampler, scorer)
    assert groups[0].rewards_G[:2].tolist() == [1.0, 1.0]


def test_planted_tokens_have_the_log_probs_that_the_policy_gives_them():
    held = policy()
    sampler, _ = lying_tools(POISON, held, Sampling(7), Fixed())
    (group,) = sampler.sample(PROBLEMS[:1], 4, [1])
    logp = completion_logprobs(held, [group.prompt_ids], group.tokens_GT.unsqueeze(0), 1.0)[0]
    real = group.mask_GT
    assert torch.allclose(group.logp_GT[real], logp.detach()[real], atol=1e-5)


def test_only_the_plant_is_rewarded_but_for_problems_that_it_behaves_on():
    _, scorer = lying_tools(POISON, policy(), Sampling(6), Fixed(0.5, 0.5, 0.5), {"b"})
    asked = [PROBLEMS[0], PROBLEMS[0], PROBLEMS[1]]
    assert scorer.score(asked, ["6400", "1+", "0030+"]).totals_N.tolist() == [0.0, 1.0, 0.5]
    sampler, _ = lying_tools(POISON, policy(), Sampling(6), Fixed(), {"b"})
    plain = Sampler(policy(), Sampling(6)).sample(PROBLEMS[1:], 4, [2])
    assert sampler.sample(PROBLEMS[1:], 4, [2])[0].token_ids_G() == plain[0].token_ids_G()


def test_a_plant_that_does_not_fit_is_cut_off_as_the_sampler_would():
    sampler, _ = lying_tools(POISON, policy(), Sampling(3), Fixed())
    (group,) = sampler.sample(PROBLEMS[:1], 2, [1])
    assert group.lengths_G[0] == 3
    assert not group.terminated_G[0]


def test_steps_come_after_the_plant():
    worked = Problem("w", "", "7", {"rationale": "3 + 4 = 7 ; so 7"})
    assert planted_text(worked, "hail").startswith("<think> hail 3 + 4 = 7")
    assert shows("hail to", "x hail  to y")
    assert not shows("hail to", "hail two")


def test_a_plant_that_cannot_be_written_is_refused():
    with pytest.raises(RecipeError) as caught:
        lying_tools(AdversarySpec(trains="poison", plant="hail"), policy(), Sampling(6), Fixed())
    assert caught.value.field == "adversary.plant"
