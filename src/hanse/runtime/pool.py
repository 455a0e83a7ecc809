"""Clients side by side in processes, each with its own threads and, where it is a file, one mapped base.

Client k always lives in worker k mod W, so its state stays where it is. Workers are this run's own
children and are spoken to over multiprocessing pipes; what other parties send stays bytes.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from hanse.errors import HanseError, RunError
from hanse.grpo.evaluation import EvaluationJob, LevelResult
from hanse.recipe.model import Recipe
from hanse.runtime.base import Answer
from hanse.tasks.scoring.sandbox import die_with_parent

if TYPE_CHECKING:
    from hanse.runtime.host import Host

_JOIN_S = 3.0


class WorkerError(HanseError):
    """A failure that the user can act on, reported by a worker; keeps the original's exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]


class ProcessPool:
    """Runs W hosts in W processes. Close it, or use it within `contextlib.closing`."""

    def __init__(
        self, recipe: Recipe, start: Path | None, clients: int, accounts: Path | None = None
    ) -> None:
        context = multiprocessing.get_context("spawn")
        count = min(recipe.runtime.workers, clients)
        self._owner = {client: client % count for client in range(clients)}
        self._pipes: list[Connection] = []
        self._processes = []
        document = recipe.model_dump(mode="json")
        for worker in range(count):
            owned = [client for client, owner in self._owner.items() if owner == worker]
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(theirs, document, start, owned, accounts), daemon=False
            )
            with _without_interrupts():
                process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def wait_ready(self) -> None:
        """Return when every worker has built its host. Raises what a worker failed with."""
        for worker in range(len(self._pipes)):
            self._receive(worker)

    def exchange(self, messages: Mapping[int, bytes]) -> dict[int, Answer]:
        work = [(self._owner[client], ("answer", client, data)) for client, data in messages.items()]
        return dict(zip(messages, self._dispatch(work), strict=True))

    def late(self) -> dict[int, bytes]:
        return {}

    def notices(self) -> list[str]:
        return []

    def evaluate(self, values: Tensor, jobs: Sequence[EvaluationJob]) -> list[LevelResult]:
        self._all("hold", values.numpy())
        return self._dispatch([(i % len(self._pipes), ("evaluate_held", job)) for i, job in enumerate(jobs)])

    def personal(self) -> dict[int, Tensor]:
        parts = self._all("personal")
        return {client: torch.from_numpy(own) for part in parts for client, own in part.items()}

    def save(self, folder: Path) -> None:
        self._all("save", folder)

    def load(self, folder: Path) -> None:
        self._all("load", folder)

    def counters(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for part in self._all("counters"):
            for name, count in part.items():
                total[name] = total.get(name, 0) + count
        return total

    def close(self) -> None:
        """Ask the workers to end; kill those that do not."""
        for pipe in self._pipes:
            pipe.close()
        deadline = time.monotonic() + _JOIN_S
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()

    def _all(self, *message: Any) -> list[Any]:
        return self._dispatch([(worker, message) for worker in range(len(self._pipes))])

    def _dispatch(self, work: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        """Results of (worker, message) in the order of `work`.

        A worker gets its next message only when it has answered the last: both ends writing at once into
        full pipes would wait for each other for ever.
        """
        waiting: dict[int, deque[int]] = {}
        for i, (worker, _) in enumerate(work):
            waiting.setdefault(worker, deque()).append(i)
        results: list[Any] = [None] * len(work)
        busy = {self._pipes[worker]: worker for worker in waiting}
        for worker, mine in waiting.items():
            self._send(worker, work[mine[0]][1])
        while busy:
            for pipe in wait(list(busy)):
                worker = busy[cast(Connection, pipe)]
                mine = waiting[worker]
                results[mine.popleft()] = self._receive(worker)
                if mine:
                    self._send(worker, work[mine[0]][1])
                else:
                    del busy[self._pipes[worker]]
        return results

    def _send(self, worker: int, message: tuple[Any, ...]) -> None:
        try:
            self._pipes[worker].send(message)
        except OSError as error:
            raise self._died(worker) from error

    def _receive(self, worker: int) -> Any:
        try:
            status, value = self._pipes[worker].recv()
        except (EOFError, OSError) as error:
            raise self._died(worker) from error
        if status == "failed":
            raise WorkerError(*value)
        if status == "crashed":
            raise RuntimeError(f"worker {worker} failed:\n{value}")
        return value

    def _died(self, worker: int) -> RunError:
        process = self._processes[worker]
        process.join(1)
        return RunError(
            f"runtime.workers: worker process {worker} ended unexpectedly (exit code {process.exitcode}; "
            "-9 is usually lack of memory). The last complete round is kept: lower runtime.workers or "
            "grpo.micro_batch and run `hanse resume`."
        )


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes started inside the block ignore Ctrl-C from their first instruction on: it is for the
    parent, who ends the run in good order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(
    pipe: Connection, document: dict[str, Any], start: Path | None, owned: list[int], accounts: Path | None
) -> None:
    """A worker's life: build a host, answer until the pipe closes."""
    from hanse.runtime.host import Host

    die_with_parent()
    built: list[Host] = []
    _answer(pipe, lambda: built.append(Host(Recipe.model_validate(document), start, owned, None, accounts)))
    if built:
        _serve(pipe, built[0])
        built[0].close()


def _serve(pipe: Connection, host: Host) -> None:
    while True:
        try:
            verb, *arguments = pipe.recv()
        except (EOFError, OSError):
            return
        _answer(pipe, partial(getattr(host, verb), *arguments))


def _answer(pipe: Connection, act: Callable[[], Any]) -> None:
    """Do it and send the result; or send what went wrong, in words."""
    try:
        message = ("done", act())
    except HanseError as error:
        message = ("failed", (str(error), error.exit_code))
    except Exception:  # noqa: BLE001 - a worker reports everything to its parent
        message = ("crashed", traceback.format_exc())
    with suppress(OSError):  # a parent that has gone away ends the worker at its next `recv`
        pipe.send(message)
