from pathlib import Path

import pytest

from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scorer import Scorer

FUNCTIONS = Path(__file__).parent.parent / "functions.py"


def reward(name, **fields):
    return RewardSpec(path=f"{FUNCTIONS}:{name}", **fields)


def grouped(completions, size=2):
    """Problems for `completions` in groups of `size`."""
    return [
        Problem(f"p{i // size}", f"q{i // size}", str(i), {"level": i // size})
        for i in range(len(completions))
    ]


@pytest.fixture
def score():
    """Score completions in groups of two; scorers are closed at the end."""
    open_scorers = []

    def run(rewards, completions, problems=None, ids=None, **spec):
        fields = {"processes": 1, "deadline_s": 0.5, **spec}
        scorer = Scorer([rewards] if isinstance(rewards, RewardSpec) else rewards, ScoringSpec(**fields))
        open_scorers.append(scorer)
        return scorer.score(problems or grouped(completions), completions, ids)

    yield run
    for scorer in open_scorers:
        scorer.close()
