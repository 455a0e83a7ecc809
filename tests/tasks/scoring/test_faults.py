"""Reward functions that misbehave: only the guilty completions stay unscored, and the pool lives on."""

import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from hanse.errors import RecipeError
from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.tasks.scoring import sandbox
from hanse.tasks.scoring.scorer import Scorer

from ..processes import command_line, living, within, workers
from .conftest import FUNCTIONS, grouped, reward

NAMESPACES, _ = sandbox.probe()

COMPLETIONS = ["good", "good", "bad", "good", "good", "good"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raises", "exception"),
        ("leaves", "exception"),
        ("eats_memory", "exception"),
        ("hangs", "timeout"),
        ("exits", "worker died"),
        ("segfaults", "worker died"),
        ("words", "wrong result"),
        ("babbles", "malformed reply"),
        ("announces_gigabytes", "malformed reply"),
        ("nests_deeply", "malformed reply"),
        ("forges", "malformed reply"),
    ],
)
def test_only_the_guilty_row_stays_unscored(score, name, reason):
    scores = score(reward(name), COMPLETIONS, deadline_s=0.4, memory_mb=512)
    assert [math.isnan(total) for total in scores.totals_N] == [c == "bad" for c in COMPLETIONS]
    assert set(scores.totals_N.tolist()) - {1.0} and scores.totals_N[0] == 1.0
    assert scores.failures == {reason: 1}
    assert len(scores.examples) == 1 and scores.examples[0].startswith(f"{name}: {reason}")


def test_a_wrong_number_of_rewards_is_never_made_right_by_asking_row_by_row(score):
    scores = score(reward("too_few"), COMPLETIONS, deadline_s=0.4, memory_mb=512)
    assert all(math.isnan(total) for total in scores.totals_N)
    assert scores.failures == {"wrong length": len(COMPLETIONS)}


def test_the_pool_lives_on():
    with Scorer([reward("hangs"), reward("exits")], ScoringSpec(processes=2, deadline_s=0.2)) as scorer:
        for _ in range(2):
            assert math.isnan(scorer.score(grouped(["bad"]), ["bad"]).totals_N[0])
            assert scorer.score(grouped(["good"]), ["good"]).totals_N.tolist() == [2.0]
    assert workers() == []


def test_prints_do_not_disturb_the_protocol(score, capfd):
    assert score(reward("prints"), ["a", "b"]).totals_N.tolist() == [1.0, 1.0]
    assert capfd.readouterr() == ("", "")


def test_a_function_that_forks_and_returns_answers_once(score):
    scores = score(reward("forks_and_returns"), ["a"] * 200)
    assert scores.totals_N.tolist() == [1.0] * 200


def test_no_network(score):
    """Where the system permits namespaces. The same function reaches the port when it is trusted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with Scorer([reward("dials")], ScoringSpec()) as scorer:
            inside = scorer.score(grouped([port]), [port]).totals_N[0]
            enforced = scorer.isolation["network"]
        assert score(reward("dials", trusted=True), [port], deadline_s=2).totals_N[0] == 1.0
    assert inside == (0.0 if enforced else 1.0)


def test_isolation_is_reported():
    with Scorer([reward("length")], ScoringSpec()) as scorer:
        assert scorer.isolation == {}
        scorer.start()
        assert set(scorer.isolation) == {"memory", "network", "descendants", "files_of_code"}
        assert scorer.isolation["memory"]


def alive(pid):
    return b"scoring.worker" in command_line(pid)


def end(mark):
    for pid in living(mark):
        os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("session", ["same", "own"])
def test_grandchildren_die_with_the_worker(score, session):
    if session == "own" and not NAMESPACES:
        pytest.skip("a process that leaves its session is caught by a process namespace only")
    mark = f"hanse-grandchild-{session}-{os.getpid()}"
    scores = score(reward("spawns", arguments={"own_session": session == "own"}), [mark], deadline_s=0.5)
    assert scores.failures == {"timeout": 1}
    assert within(5, lambda: not living(mark))


PARENT = f"""
import sys
from hanse.errors import RecipeError
from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scorer import Scorer
scorer = Scorer([RewardSpec(path="{FUNCTIONS}:spawns")], ScoringSpec(processes=1, deadline_s=60))
scorer.start()
print("started", flush=True)
scorer.score([Problem("a", "q")], [sys.argv[1]])
"""


def test_kill_9_of_the_parent_leaves_no_process_behind():
    """The parent is in the middle of a call; its worker hangs and has a grandchild of its own session."""
    mark = f"hanse-orphan-{os.getpid()}"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, mark], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None and parent.stdout.readline() == "started\n"
    assert within(10, lambda: len(living(mark)) == 2)  # the parent itself and the grandchild
    outer = workers(parent.pid)
    inner = [pid for worker in outer for pid in workers(worker)]
    assert len(outer) == 1 and len(inner) == (1 if NAMESPACES else 0)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert within(5, lambda: not any(map(alive, outer + inner)))
    if NAMESPACES:
        assert within(5, lambda: not living(mark))
    else:
        end(mark)


def test_a_worker_outlives_the_thread_that_first_scored(score):
    """The system ties a child to the thread that started it, so that must not be a caller's."""
    with Scorer([reward("length")], ScoringSpec(processes=1)) as scorer:
        results = []
        thread = threading.Thread(target=lambda: results.append(scorer.score(grouped(["ab"]), ["ab"])))
        thread.start()
        thread.join()
        before = workers()
        assert results[0].totals_N.tolist() == [2.0]
        time.sleep(0.1)
        assert scorer.score(grouped(["abc"]), ["abc"]).totals_N.tolist() == [3.0]
        assert workers() == before != []


def test_closing_ends_a_call_under_way_and_all_processes():
    scorer = Scorer([reward("hangs")], ScoringSpec(processes=2, deadline_s=30))
    scorer.start()
    results = []
    completions = ["bad"] * 400
    thread = threading.Thread(target=lambda: results.append(scorer.score(grouped(completions), completions)))
    thread.start()
    time.sleep(0.2)
    start = time.monotonic()
    scorer.close()
    scorer.close()
    thread.join(5)
    assert time.monotonic() - start < 3 and not thread.is_alive()
    assert sum(results[0].failures.values()) == 400 and workers() == []


def test_too_little_memory_to_start_says_so():
    scorer = Scorer([RewardSpec(name="math")], ScoringSpec(memory_mb=64))
    with scorer, pytest.raises(RecipeError) as caught:
        scorer.start()
    assert "memory_mb" in caught.value.remedy
