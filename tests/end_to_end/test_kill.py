"""kill -9 at any moment, then `hanse resume`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hanse
from hanse.recipe.load import dump_recipe
from tests.end_to_end.small import small_recipe, without_times

ROUNDS = 5


def start(recipe: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "hanse", "train", str(recipe), "--out", str(out), "--quiet"]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)


def rounds_done(out: Path) -> int:
    found = [int(p.name) for p in out.glob("*/rounds/[0-9]*")]
    return max(found, default=-1)


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(c) for c in children] + [d for c in children for d in descendants(int(c))]


def gone(pids: list[int], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(_alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_killed_runs_resume_bit_identically_and_leave_no_process(tmp_path):
    reference = hanse.train(small_recipe(rounds=ROUNDS), out=tmp_path / "reference")

    for attempt, (wait_for, more) in enumerate([(0, 0.0), (2, 0.03), (3, 0.01)]):
        out, path = tmp_path / f"out-{attempt}", tmp_path / f"recipe-{attempt}.toml"
        workers = 2 if attempt == 1 else 1
        path.write_text(dump_recipe(small_recipe(f"runtime.workers={workers}", rounds=ROUNDS)))
        process = start(path, out)
        deadline = time.monotonic() + 90
        while rounds_done(out) < wait_for and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(more)
        family = descendants(process.pid) if process.poll() is None else []
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert gone(family), f"processes outlive the run: {family}"
        folders = list(out.iterdir()) if out.exists() else []
        if not folders or not (folders[0] / "recipe.toml").exists():
            continue
        resumed = hanse.resume(folders[0])
        assert resumed.summary["policy_sha256"] == reference.summary["policy_sha256"]
        assert resumed.summary["evaluation"] == reference.summary["evaluation"]
        assert without_times(resumed.metrics("step")) == without_times(reference.metrics("step"))
        rows = (folders[0] / "completions.jsonl").read_text().splitlines()
        assert all(json.loads(row)["when"] in ("before", "after") for row in rows)
        assert len(rows) == len((reference.folder / "completions.jsonl").read_text().splitlines())
