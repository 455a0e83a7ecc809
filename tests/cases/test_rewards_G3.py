"""G3: a reward function returns None or NaN. Such completions are unscored; nothing else becomes NaN."""

import math

import numpy as np

from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scorer import Scorer

MODULE = """
def moody(completions, **kwargs):
    return [{"none": None, "nan": float("nan"), "inf": float("-inf")}.get(c, 1.0) for c in completions]
"""


def test_none_and_nan_leave_only_their_own_completion_unscored(tmp_path):
    (tmp_path / "moody.py").write_text(MODULE)
    completions = ["fine", "none", "nan", "inf", "fine"]
    problems = [Problem("p", "q", "fine")] * len(completions)
    rewards = [RewardSpec(name="exact"), RewardSpec(path=f"{tmp_path}/moody.py:moody")]
    with Scorer(rewards, ScoringSpec(processes=1)) as scorer:
        scores = scorer.score(problems, completions)
    assert scores.totals_N[[0, 1, 4]].tolist() == [2.0, 0.0, 2.0]  # None: left out of the sum
    assert np.isnan(scores.totals_N[[2, 3]]).all()
    assert scores.failures == {"not finite": 2}


def test_all_none_is_unscored_and_counted_never_zero():
    with Scorer([RewardSpec(name="exact")], ScoringSpec()) as scorer:
        scores = scorer.score([Problem("p", "q", None)], ["x"])
    assert math.isnan(scores.totals_N[0])
    assert scores.failures == {"not applicable": 1}
