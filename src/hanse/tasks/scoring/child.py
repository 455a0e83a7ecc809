"""The scorer's end of a worker: start it, ask it, kill it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from hanse.errors import RecipeError
from hanse.tasks import child_environment
from hanse.tasks.rewards.batch import MESSAGE_LENGTH, Failure, Result, describe
from hanse.tasks.scoring import frames

_REASONS = ("exception", "wrong result", "wrong length")


class StartError(Exception):
    """The worker ended, hung or babbled before it was ready."""


class Child:
    """A worker process with the functions of `sources`. Not for use by two threads at a time.

    It dies with the thread that started it, at the latest. Raises RecipeError if a function cannot be
    resolved, StartError if the worker does not come up by `deadline` (time.monotonic).
    """

    def __init__(self, sources: Sequence[Mapping[str, Any]], memory_mb: int, deadline: float) -> None:
        self._last_id = 0
        try:
            self._process, self._requests, self._replies = _start(memory_mb)
        except OSError as error:
            raise StartError(str(error)) from error
        self.alive = True
        try:
            frames.write(self._requests, frames.encode(sources), deadline)
            hello = frames.read(self._replies, frames.MAX_REPLY, deadline)
            self.isolation, self.needs_ids = _read_hello(hello)
        except (OSError, EOFError, frames.FrameError) as error:
            status = self.kill()
            raise StartError(f"{type(error).__name__}, exit status {status}") from error
        except BaseException:
            self.kill()
            raise

    def call(self, request: Mapping[str, Any], expected: int, deadline: float) -> Result:
        """Values for a request of `expected` rows. Dead after any failure but the function's own."""
        self._last_id += 1
        try:
            frame = frames.encode({**request, "id": self._last_id})
        except (TypeError, ValueError, RecursionError) as error:
            return Failure("exception", f"columns cannot be sent: {describe(error)}")
        try:
            frames.write(self._requests, frame, deadline)
            reply = frames.read(self._replies, frames.MAX_REPLY, deadline)
            return _read_reply(reply, self._last_id, expected)
        except TimeoutError:
            failure = Failure("timeout", "no reply by the deadline; its process was killed")
        except frames.FrameError as error:
            failure = Failure("malformed reply", str(error))
        except (OSError, EOFError):
            failure = Failure("worker died", "its process ended without a reply")
        self.kill()
        return failure

    def interrupt(self) -> None:
        """Kill the worker and its descendants; a call under way in another thread then fails."""
        if self.alive:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> int | None:
        """The same from the thread that uses the worker, with cleaning up; returns its exit status."""
        if self.alive:
            self.interrupt()
            self.alive = False
            self._process.wait()
            os.close(self._requests)
            os.close(self._replies)
        return self._process.returncode


def _start(memory_mb: int) -> tuple[subprocess.Popen[bytes], int, int]:
    """The process, and non-blocking descriptors to write requests to and read replies from."""
    theirs, requests = os.pipe()
    replies, answers = os.pipe()
    numbers = map(str, (theirs, answers, os.getpid(), memory_mb))
    try:
        process = subprocess.Popen(
            child_environment.command("hanse.tasks.scoring.worker", *numbers),
            env=child_environment.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs, answers),
            start_new_session=True,
        )
    except OSError:
        os.close(requests)
        os.close(replies)
        raise
    finally:
        os.close(theirs)
        os.close(answers)
    os.set_blocking(requests, False)
    os.set_blocking(replies, False)
    return process, requests, replies


def _read_hello(hello: Any) -> tuple[dict[str, bool], list[bool]]:
    match hello:
        case {"refused": [str(field), str(problem), str(remedy)]}:
            raise RecipeError(field, problem, remedy)
        case {"isolation": dict(isolation), "needs_ids": list(needs_ids)}:
            return {str(k): bool(v) for k, v in isolation.items()}, list(map(bool, needs_ids))
    raise frames.FrameError("not a greeting")


def _read_reply(reply: Any, request_id: int, expected: int) -> Result:
    match reply:
        case {"id": int(given), "values": list(values)} if given == request_id and len(values) == expected:
            return [_read_value(value) for value in values]
        case {"id": int(given), "reason": str(reason), "message": str(message)} if given == request_id:
            if reason in _REASONS:
                return Failure(reason, message[:MESSAGE_LENGTH])
    raise frames.FrameError("not a reply to the request")


def _read_value(value: Any) -> float | None:
    if value is not None and type(value) not in (int, float):
        raise frames.FrameError(f"a {type(value).__name__} among the values")
    try:
        return None if value is None else float(value)
    except OverflowError as error:
        raise frames.FrameError("a number beyond all bounds among the values") from error
