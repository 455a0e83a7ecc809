"""Unit tests of code that the model wrote."""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from hanse.tasks.rewards.batch import RewardFunction, text_of
from hanse.tasks.scoring import sandbox

DEFAULT_TIMEOUT_S = 3.0
_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL)
_MAX_PROCESSES = 32


class Limits(NamedTuple):
    """Of one program: seconds, MiB beyond what the worker has, and whether it gets namespaces of its own."""

    timeout_s: float
    memory_mb: int
    namespaces: bool


def build(*, timeout_s: float = DEFAULT_TIMEOUT_S, memory_mb: int = 512) -> RewardFunction:
    """1.0 where the code passes the column `test` (Python source, or a list of statements); 0.0 elsewhere.

    The program: the column `preamble` (optional), the completion, the tests, check(`entry_point`) (optional).
    It runs in a process of its own with limits on time, memory and (except for root) processes, and where
    the system permits it without network and with all files read-only. Code that fails, hangs or dies has
    failed: 0.0. None for problems without tests. Passing is reported by a secret that is written after the
    last test, so leaving early is no pass; code that digs the secret out of the interpreter, or makes
    everything equal to everything, can still cheat.
    """
    limits = Limits(timeout_s, memory_mb, namespaces=sandbox.probe()[0])

    def one(completion: Any, test: Any, preamble: str | None, entry_point: str | None) -> float | None:
        if test is None:
            return None
        return float(passes(program(text_of(completion), test, preamble or "", entry_point), limits))

    def code(completions: Sequence[Any], test: Sequence[Any], **columns: Any) -> list[float | None]:
        nothing = [None] * len(completions)
        preambles, names = (columns.get(name) or nothing for name in ("preamble", "entry_point"))
        return [one(*row) for row in zip(completions, test, preambles, names, strict=True)]

    return code


def program(completion: str, test: str | Sequence[str], preamble: str, entry_point: str | None) -> str:
    """The source to run. Of fenced blocks the last counts; of a bare function body, its indented lines."""
    blocks = _FENCED.findall(completion)
    if blocks:
        completion = blocks[-1]
    elif completion[:1].isspace():
        completion = _body(completion)
    tests = test if isinstance(test, str) else "\n".join(test)
    call = f"check({entry_point})" if entry_point else ""
    return f"{preamble}{completion}\n\n{tests}\n{call}\n"


def _body(text: str) -> str:
    """Up to the first line that is neither indented nor empty: base models run on past the function."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if line.strip() and not line[0].isspace():
            return "\n".join(lines[:i])
    return text


def passes(source: str, limits: Limits) -> bool:
    """Run `source` in a short-lived fork; whether it reached its end in time."""
    secret = secrets.token_bytes(16)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _run(source, secret, write, limits)
    os.close(write)
    try:
        return _receive(read, len(secret), time.monotonic() + limits.timeout_s) == secret
    finally:
        os.close(read)
        for kill in (os.killpg, os.kill):  # the group exists only once the child has made it
            with suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _receive(fd: int, size: int, deadline: float) -> bytes:
    """At most `size` + 1 bytes, until the writer ends or the deadline comes."""
    data = b""
    while len(data) <= size:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            break
        part = os.read(fd, size + 1 - len(data))
        if not part:
            break
        data += part
    return data


def _run(source: str, secret: bytes, write: int, limits: Limits) -> NoReturn:
    try:
        _confine(write, limits)
        exec(compile(source, "<completion>", "exec"), {"__name__": "completion"})
        os.write(write, secret)
    except BaseException:  # noqa: BLE001  whatever the code raises, it has not passed
        pass
    finally:
        os._exit(0)


def _confine(write: int, limits: Limits) -> None:
    os.setsid()
    sandbox.die_with_parent()
    os.closerange(3, write)
    os.closerange(write + 1, os.sysconf("SC_OPEN_MAX"))
    if limits.namespaces:
        sandbox.hide_memory(False)
        sandbox.enter_namespaces()
        sandbox.die_with_parent()
        sandbox.fork_as_init(close=[write])
        sandbox.freeze_files()
    sandbox.limit(limits.memory_mb + sandbox.address_space_mb(), cpu_s=int(limits.timeout_s) + 1)
    sandbox.limit_processes(_MAX_PROCESSES)
