"""G21: a pathological expression hangs the verifier forever. Its process is killed; the pool stays alive."""

import math
import time

import pytest

from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scorer import Scorer

REWARDS = {
    "regular expression": (RewardSpec(name="format", arguments={"pattern": "(a+)+b"}), "a" * 40, "aab"),
    "tower of powers": (RewardSpec(name="math"), r"\boxed{9^{9^{9^{9}}}}", r"\boxed{7}"),
}


@pytest.mark.parametrize("kind", REWARDS)
def test_a_hang_costs_its_own_completion_only(kind):
    reward, pathological, harmless = REWARDS[kind]
    problems = [Problem("p", "q", "7")] * 8
    completions = [harmless] * 3 + [pathological] + [harmless] * 4
    with Scorer([reward], ScoringSpec(processes=2, deadline_s=0.6)) as scorer:
        scorer.start()
        start = time.monotonic()
        scores = scorer.score(problems, completions)
        seconds = time.monotonic() - start
        again = scorer.score(problems[:4], [harmless] * 4)
    assert [math.isnan(total) for total in scores.totals_N] == [False] * 3 + [True] + [False] * 4
    assert scores.failures == {"timeout": 1}
    assert seconds < 8
    assert again.totals_N.tolist() == [1.0] * 4
