"""Runs side by side, each in a process of its own with one thread."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from hanse.runs.study.jobs import Job
from hanse.runs.study.progress import StudyProgress

_PAUSE_S = 0.1
_GRACE_S = 10.0
_LOG = "log.txt"

_Process = subprocess.Popen[bytes]


def run_all(
    jobs: Sequence[Job], workers: int, progress: StudyProgress, after: Callable[[], Any] = lambda: None
) -> None:
    """Bring every job to its end, at most `workers` at a time, in their order; `after` each one is called.

    A run that fails leaves its error.json and does not stop the others. Whatever ends this, Ctrl-C too, the
    processes are stopped, and each of them can be resumed.
    """
    waiting, running = deque(job for job in jobs if not job.finished()), dict[Job, _Process]()
    for job in jobs:
        if job not in waiting:
            progress.ended(job)
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.popleft()
                progress.began(job, job.prepare())
                running[job] = _start(job)
            time.sleep(_PAUSE_S)
            for job in [job for job, process in running.items() if process.poll() is not None]:
                _note_failure(job, running.pop(job).returncode)
                progress.ended(job)
                after()
    finally:
        _stop(list(running.values()))


def _start(job: Job) -> _Process:
    """A session of its own keeps the terminal's Ctrl-C for this process, which then asks it to stop."""
    command = [sys.executable, "-m", "hanse.runs.study.worker", str(job.path), str(os.getpid())]
    with (job.path / _LOG).open("wb") as log:
        return subprocess.Popen(
            command,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _note_failure(job: Job, code: int) -> None:
    if code == 0 or job.has_error():
        return
    lines = (job.path / _LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
    reason = (
        f"ended by signal {-code}" if code < 0 else lines[-1] if lines else f"ended with exit code {code}"
    )
    job.fail(f"{reason} (see {_LOG} in its folder)", code)


def _stop(processes: Sequence[_Process]) -> None:
    for process in processes:
        process.terminate()
    end = time.monotonic() + _GRACE_S
    for process in processes:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
