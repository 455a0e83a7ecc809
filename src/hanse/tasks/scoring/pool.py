"""A few workers, each with a thread of its own that waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any

from hanse.errors import RecipeError
from hanse.recipe.tasks import ScoringSpec
from hanse.tasks.rewards.batch import Failure, Result
from hanse.tasks.scoring.child import Child, StartError

START_DEADLINE_S = 60.0

Request = Mapping[str, Any]


class Pool:
    """Workers start when there is work for them; one that dies or is killed is replaced at the next call.

    A worker is started by the thread that serves it, since the system kills it when that thread ends.
    """

    def __init__(self, sources: Sequence[Mapping[str, Any]], spec: ScoringSpec) -> None:
        self._sources, self._spec = sources, spec
        self._threads = ThreadPoolExecutor(spec.processes, thread_name_prefix="hanse-scoring")
        self._own = threading.local()
        self._lock = threading.Lock()
        self._children: set[Child | None] = set()
        self._closed = False
        self.isolation: dict[str, bool] = {}
        self.needs_ids: list[bool] = []

    def start(self) -> None:
        """Start a first worker, which imports all functions. Raises RecipeError if it cannot."""
        if not self.isolation:
            self._threads.submit(self._first).result()

    def run(self, requests: Sequence[tuple[Request, int]], until: float) -> list[Result]:
        """Results of (request, number of rows), in order; what is not done by `until` fails as "budget"."""
        try:
            futures = [self._threads.submit(self._one, request, rows, until) for request, rows in requests]
            return [future.result() for future in futures]
        except (RuntimeError, CancelledError):
            if not self._closed:
                raise
            return [Failure("closed", "scoring was closed")] * len(requests)

    def close(self) -> None:
        """Kill all workers; calls under way fail. May be called twice."""
        with self._lock:
            self._closed = True
            children = [child for child in self._children if child is not None]
        self._threads.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.interrupt()
        self._threads.shutdown(wait=True)
        for child in children:
            child.kill()

    def _first(self) -> None:
        try:
            child = self._child(time.monotonic() + START_DEADLINE_S)
        except StartError as error:
            raise RecipeError(
                "scoring",
                f"a process for reward functions with {self._spec.memory_mb} MiB did not start ({error}).",
                "Raise scoring.memory_mb, and check that importing the functions neither hangs nor exits.",
            ) from error
        self.isolation, self.needs_ids = child.isolation, child.needs_ids

    def _child(self, deadline: float) -> Child:
        child: Child | None = getattr(self._own, "child", None)
        if child is not None and child.alive:
            return child
        fresh = Child(self._sources, self._spec.memory_mb, deadline)
        with self._lock:
            self._children = (self._children - {child}) | {fresh}
            closed = self._closed
        if closed:
            fresh.kill()
            raise StartError("scoring was closed")
        self._own.child = fresh
        return fresh

    def _one(self, request: Request, rows: int, until: float) -> Result:
        spent = Failure("budget", f"scoring.budget_s = {self._spec.budget_s:g} was spent")
        if time.monotonic() >= until or self._closed:
            return spent
        try:
            child = self._child(min(until, time.monotonic() + START_DEADLINE_S))
        except (StartError, RecipeError) as error:
            return Failure("worker died", f"it did not start again: {error}")
        deadline = time.monotonic() + self._spec.deadline_s
        result = child.call(request, rows, min(deadline, until))
        cut_short = until < deadline and isinstance(result, Failure) and result.reason == "timeout"
        return spent if cut_short else result
