"""One side in a process of its own. Both take turns: a worker runs one repeat for each line that it reads.

So each side has its own memory, allocator and interpreter, and neither warms or litters the other's caches.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WARM_UP = 3
_MARK = "@@ "


class Worker:
    """The parent's handle. Raises RuntimeError, with the end of its output, if the process fails."""

    def __init__(self, script: str, arguments: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._errors: list[str] = []
        threading.Thread(target=self._collect_errors, daemon=True).start()
        self.facts = self._read()

    def _collect_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors += self._process.stderr

    def ask(self, request: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_MARK):
                return json.loads(line.removeprefix(_MARK))
        raise RuntimeError("".join(self._errors[-20:]) or f"exit code {self._process.wait()}")

    def close(self) -> Any:
        """The worker's last words."""
        summary = self.ask("end")
        self._process.wait()
        return summary


def _say(value: Any) -> None:
    print(_MARK + json.dumps(value), flush=True)


def _listen() -> str:
    return sys.stdin.readline().strip()


def peak_mib() -> float:
    """Of this process alone: getrusage's peak is inherited from the parent."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def serve_ours(case: Any, repeats: int) -> None:
    from step.arithmetic import gemm_rate, step_flops
    from step.cases import build, flat_share, make_problems
    from step.ours import Ours

    policy = build(case)
    problems = make_problems(case, policy, case.P * (WARM_UP + repeats * case.steps + 2))
    ours = Ours(case, policy, problems)
    ours.run(WARM_UP)
    ours.run_without_skipping(1)
    ours.forget_phases()
    peak = peak_mib()
    _say(
        {
            "parameters": sum(p.numel() for p in policy.model.parameters()),
            "trainable": policy.parameters.numel,
            "flops": step_flops(case, policy, busy=1 - flat_share(case, problems)),
            "gemm": gemm_rate(),
        }
    )
    while (request := _listen()) not in ("end", ""):
        _say(ours.run(case.steps) if request == "run" else ours.run_without_skipping(case.steps))
    _say({"peak_mib": peak, "phases": ours.median_phases()})


def serve_peer(case: Any, repeats: int) -> None:
    from step.cases import build, make_problems
    from step.peer import Peer

    policy = build(case)
    problems = make_problems(case, policy, case.P * (WARM_UP + repeats * case.steps + 2))
    peer = Peer(case, policy, problems)

    def between(seconds: float | None) -> None:
        _say(seconds)
        if _listen() != "run":  # the end, after the last repeat
            _say({"peak_mib": peak_mib(), "generate": peer.median_generate(WARM_UP)})

    peer.run(repeats, WARM_UP, between)
