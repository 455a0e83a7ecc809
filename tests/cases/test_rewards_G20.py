"""G20: `signal.alarm` off the main thread raises, and every score is silently 0.

Flower and Ray run client code off the main thread. Rewards run in children, on their main thread; whatever
fails is unscored and counted.
"""

import threading

from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scorer import Scorer

MODULE = """
import signal

def alarmed(completions, answer, **kwargs):
    def late(*_):
        raise TimeoutError
    signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    try:
        return [float(c == a) for c, a in zip(completions, answer)]
    finally:
        signal.alarm(0)
"""


def off_main_thread(work, times=1):
    results = []
    threads = [threading.Thread(target=lambda: results.append(work())) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_alarms_work_when_the_scorer_is_called_off_the_main_thread(tmp_path):
    (tmp_path / "alarmed.py").write_text(MODULE)
    problems = [Problem(f"p{i}", "q", str(i)) for i in range(8)]
    completions = [str(i) if i % 2 else "wrong" for i in range(8)]
    rewards = [RewardSpec(path=f"{tmp_path}/alarmed.py:alarmed"), RewardSpec(name="math")]

    def work():
        with Scorer(rewards, ScoringSpec()) as scorer:
            return scorer.score(problems, completions)

    (scores,) = off_main_thread(work)
    assert scores.totals_N.tolist() == [0.0, 2.0] * 4
    assert not scores.failures


def test_several_threads_share_a_scorer():
    problems = [Problem(f"p{i}", "q", str(i)) for i in range(40)]
    completions = [str(i) for i in range(40)]
    with Scorer([RewardSpec(name="math")], ScoringSpec()) as scorer:
        results = off_main_thread(lambda: scorer.score(problems, completions), times=4)
    assert [scores.totals_N.tolist() for scores in results] == [[1.0] * 40] * 4


def test_where_an_alarm_does_fail_it_is_unscored_not_zero(tmp_path):
    """The same function as `trusted`, in a thread of this process."""
    (tmp_path / "alarmed.py").write_text(MODULE)
    rewards = [RewardSpec(path=f"{tmp_path}/alarmed.py:alarmed", trusted=True)]
    with Scorer(rewards, ScoringSpec()) as scorer:
        scores = scorer.score([Problem("p", "q", "1")] * 3, ["1"] * 3)
    assert scores.failures == {"exception": 3}
    assert "main thread" in scores.examples[0]
