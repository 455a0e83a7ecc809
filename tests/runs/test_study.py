"""A study of two arms and two seeds, run once; then killed, interrupted, failing and changed copies of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hanse.recipe.load import dump_recipe
from hanse.recipe.model import TinyPolicy
from hanse.recipe.study import load_study
from hanse.runs.folder import RunFolder
from hanse.runs.study import run_study, write_page
from hanse.runs.study.document import failures
from hanse.runs.study.plan import Plan, best_trial, curve
from hanse.runs.study.progress import SilentStudy
from hanse.runs.study.statistics import trial_score
from tests.end_to_end.small import small_recipe

STUDY = """
name = "tiny"
recipe = "base.toml"
baseline = "samples"
seeds = [10, 11]
development_seeds = [0]
workers = 2
accuracy_targets = [0.0, 1.0]
[[arms]]
name = "samples"
set = { "federation.weighting" = "samples" }
published = 37.1
[[arms]]
name = "uniform"
label = "Uniform <weights>"
set = { federation.weighting = "uniform" }
tune = { "grpo.lr" = [3e-4, 1e-3] }
[[contrasts]]
name = "uniform - samples"
arms = ["uniform", "samples"]
"""


@pytest.fixture(scope="module")
def study_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    (folder / "base.toml").write_text(dump_recipe(small_recipe(rounds=2)))
    (folder / "tiny.toml").write_text(STUDY)
    return folder / "tiny.toml"


@pytest.fixture(scope="module")
def done(study_file: Path) -> Path:
    """The finished study's folder. Tests that change it take a copy."""
    run_study(load_study(study_file), out=study_file.parent / "out")
    return study_file.parent / "out" / "tiny"


def read(root: Path) -> dict[str, Any]:
    """study.json without what may differ between two sittings."""
    document = json.loads((root / "study.json").read_text())
    del document["command"]
    for arm in document["arms"].values():
        for run in arm["runs"]:
            del run["seconds"]
    return document


def copy_without_a_run(done: Path, out: Path) -> Path:
    root = out / "tiny"
    shutil.copytree(done, root)
    shutil.rmtree(root / "runs/uniform/seed-11")
    return root


def test_folders_and_results(done: Path) -> None:
    document = read(done)
    uniform, samples = document["arms"]["uniform"], document["arms"]["samples"]
    assert [run["folder"] for run in uniform["runs"]] == ["runs/uniform/seed-10", "runs/uniform/seed-11"]
    for run in uniform["runs"]:
        summary = json.loads((done / run["folder"] / "summary.json").read_text())
        assert run["accuracy"] == summary["evaluation"]["final"]["accuracy"]
        assert run["policy_sha256"] == summary["policy_sha256"]
        assert run["bytes"] == summary["bytes"]
        assert run["rollouts"] == 2 * 2 * 2 * 16  # rounds, clients, local steps, completions
        assert run["rounds_to"] == {"0": 0, "1": None}
    assert uniform["mean"] == pytest.approx(sum(run["accuracy"] for run in uniform["runs"]) / 2)
    assert uniform["difference"]["mean"] == pytest.approx(uniform["mean"] - samples["mean"])
    assert uniform["difference"]["n"] == document["contrasts"][0]["n"] == 2
    assert samples["difference"] is None
    assert samples["published"] == 37.1
    assert failures(document) == []
    assert (done / "study.toml").read_text() == STUDY


def test_tuning_goes_by_validation_and_its_best_is_used(done: Path) -> None:
    tuning = read(done)["arms"]["uniform"]["tuning"]
    scores = [trial_score(curve(RunFolder(done / f"tuning/uniform/trial-0{i}-seed-0"))) for i in (0, 1)]
    assert [trial["score"] for trial in tuning["trials"]] == scores
    assert tuning["best"] == scores.index(max(s for s in scores if s is not None))
    recipe = RunFolder(done / "runs/uniform/seed-10").recipe()
    assert recipe.grpo.lr == tuning["chosen"]["grpo.lr"]
    assert (recipe.seed, recipe.runtime.workers, recipe.runtime.threads) == (10, 1, 1)


def test_best_trial_waits_for_all_and_takes_the_earlier_of_equals() -> None:
    trials = [{"score": score, "ended": True} for score in (0.2, None, 0.3, 0.3)]
    assert best_trial(trials) == 2
    assert best_trial([*trials, {"score": None, "ended": False}]) is None
    assert best_trial([{"score": None, "ended": True}]) is None


def test_finished_runs_are_not_repeated(done: Path, study_file: Path) -> None:
    before = read(done)
    times = {path: path.stat().st_mtime_ns for path in done.glob("*/*/*/summary.json")}
    progress = SilentStudy()
    run_study(load_study(study_file), out=done.parent, progress=progress)
    assert read(done) == before
    assert {path: path.stat().st_mtime_ns for path in times} == times
    assert {arm: (t.done, t.total) for arm, t in progress.tallies.items()} == {
        "samples": (2, 2),
        "uniform": (4, 4),
    }


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_interrupted_then_killed_then_run_again_gives_the_same(
    done: Path, study_file: Path, tmp_path: Path
) -> None:
    root = copy_without_a_run(done, tmp_path)
    missing = root / "runs/uniform/seed-11"
    code, message = stopped(study_file, tmp_path, signal.SIGINT, missing.is_dir)
    assert (code, b"Continue with: hanse study" in message) == (3, True)
    code, _ = stopped(study_file, tmp_path, signal.SIGKILL, (missing / "rounds/000000").is_dir)
    assert code == -signal.SIGKILL
    assert not (missing / "summary.json").exists()
    run_study(load_study(study_file), out=tmp_path)
    assert read(root) == read(done)


def stopped(file: Path, out: Path, by: signal.Signals, when: Callable[[], bool]) -> tuple[int, bytes]:
    """Exit code and stderr of a study that got a signal; none of its processes lives on."""
    command = [sys.executable, "-m", "hanse", "study", str(file), "--out", str(out), "--quiet"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell began us with &
    try:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, before)
    _wait(lambda: when() or process.poll() is not None)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(process.pid, by)
    _, message = process.communicate()
    _wait(lambda: not any(_alive(pid) for pid in children))
    return process.returncode, message


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def _alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_failing_run_is_told_and_does_not_end_the_study(
    done: Path, study_file: Path, tmp_path: Path
) -> None:
    shutil.copytree(done, tmp_path / "tiny")
    broken = '[[arms]]\nname = "broken"\nset = { rewards = [{ path = "gone.py:f" }] }\n[[contrasts]]'
    file = tmp_path / "broken.toml"
    file.write_text(
        STUDY.replace("[[contrasts]]", broken).replace("base.toml", str(study_file.parent / "base.toml"))
    )
    document = run_study(load_study(file), out=tmp_path)
    failed = document["arms"]["broken"]["failed"]
    assert [(run["seed"], run["start"]) for run in failed] == [(10, None), (11, None)]
    assert "gone.py" in failed[0]["error"]
    assert document["arms"]["broken"]["mean"] is None
    assert document["arms"]["uniform"] == json.loads((done / "study.json").read_text())["arms"]["uniform"]
    assert "gone.py" in (tmp_path / "tiny/study.html").read_text()


def test_a_changed_recipe_gets_a_fresh_folder_and_the_old_run_is_kept(
    study_file: Path, tmp_path: Path
) -> None:
    study = load_study(study_file)
    arm = study.spec.arm("samples")
    (job, _) = Plan(study, tmp_path).reported(arm) or ()
    assert job.prepare() is None
    assert job.prepare() is None, "the same recipe goes on in its folder"
    (job.path / "trace").touch()
    changed = load_study(study_file, ["grpo.temperature=0.9"])
    (other, _) = Plan(changed, tmp_path).reported(arm) or ()
    assert other.path == job.path
    assert not other.matches()
    note = other.prepare()
    assert note is not None and "the recipe has changed" in note
    assert (tmp_path / "superseded/runs/samples/seed-10-001/trace").exists()
    assert other.matches()
    assert not (other.path / "trace").exists()


@pytest.mark.skipif("seed" not in TinyPolicy.model_fields, reason="the policy has no start of its own")
def test_every_seed_trains_from_every_start(study_file: Path, tmp_path: Path) -> None:
    file = study_file.with_name("starts.toml")
    file.write_text(STUDY.replace("seeds = [10, 11]", "seeds = [10, 11]\nstarts = [3, 4]"))
    plan = Plan(load_study(file), tmp_path)
    jobs = plan.reported(plan.study.spec.arm("samples")) or []
    assert [job.place for job in jobs] == [
        f"runs/samples/seed-{seed}-start-{start}" for seed in (10, 11) for start in (3, 4)
    ]
    assert [(job.recipe.seed, job.recipe.start_seed) for job in jobs] == plan.pairs()
    (trial, *_) = plan.tuning(plan.study.spec.arm("uniform"))
    assert [job.recipe.start_seed for job in trial] == [0]


def test_the_page_stands_alone_and_escapes(done: Path) -> None:
    text = write_page(done).read_text()
    assert "Uniform &lt;weights&gt;" in text
    assert "<script" not in text
    assert "http://" not in text
    assert "https://" not in text
    for heading in ("Contrasts", "Accuracy by level", "Traffic", "Clients", "Tuning", "Environment"):
        assert heading in text


def test_the_page_bears_a_study_without_a_run(study_file: Path, tmp_path: Path) -> None:
    from hanse.runs.study.document import study_document
    from hanse.storage import write_json

    document = study_document(Plan(load_study(study_file), tmp_path), "")
    write_json(tmp_path / "study.json", document)
    assert "Not complete" in write_page(tmp_path).read_text()
    assert document["arms"]["uniform"]["tuning"]["best"] is None
