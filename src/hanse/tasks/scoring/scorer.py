"""Completions in, rewards out: each function where it belongs, and nothing that it does ends the run."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any

from hanse.errors import RecipeError
from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.tasks.problem import Problem
from hanse.tasks.rewards import code
from hanse.tasks.rewards.batch import Batch, Failure, Result, attempt
from hanse.tasks.rewards.resolve import Reward, RewardSource, check, resolve
from hanse.tasks.scoring.batches import groups_of, make_batch
from hanse.tasks.scoring.pieces import Cut, Outcome, Piece, settle
from hanse.tasks.scoring.pool import Pool, Request
from hanse.tasks.scoring.scores import Scores, combine, unique_names

_INLINE = ("exact", "length", "format", "tagged")
"""Our own functions in linear time; `format` only without a pattern of the user's."""
_ROWS_PER_CALL = {"code": 1, "program": 64, "math": 8, "format": 8, "reasoning_gym": 8}
_USER_CUT = Cut(rows=32, whole_groups=True)


class Scorer:
    """Scores completions by the functions of a recipe. Safe to use from any thread, and from several.

    Built-ins that cannot hang run in process. All others run in child processes with limits on memory, and
    without network where the system permits that (`isolation` says so). A call is one function on a piece of
    the completions; after `deadline_s` its process is killed and replaced, and the piece is tried again in
    smaller ones, so that only the guilty completions stay unscored. Functions marked `trusted` run in
    process on all completions at once: a hanging one is left behind in its thread, a crash is a crash.

    Sandboxed functions see whole groups (neighbouring completions of one problem), never a guaranteed
    batch; columns reach them as JSON. Raises RecipeError for rewards that cannot be found or built; user
    modules are imported at `start` or the first `score`.
    """

    def __init__(self, rewards: Sequence[RewardSpec], spec: ScoringSpec) -> None:
        if not rewards:
            problem = "there is no reward function, neither in the recipe nor of the task."
            raise RecipeError("rewards", problem, 'Add one, e.g. [[rewards]] with name = "exact".')
        sources = [source_of(reward, i) for i, reward in enumerate(rewards)]
        for i, source in enumerate(sources):
            check(source)
            check_code(source, rewards[i].trusted, spec)
        self._spec = spec
        self._weights_F = [reward.weight for reward in rewards]
        self._names_F = unique_names([source.label for source in sources])
        self._inline = {i: resolve(source) for i, source in enumerate(sources) if _is_inline(source)}
        self._trusted = {
            i: resolve(source)
            for i, source in enumerate(sources)
            if in_process(rewards[i]) and i not in self._inline
        }
        here = self._inline.keys() | self._trusted.keys()
        self._sandboxed = [i for i in range(len(sources)) if i not in here]
        self._cuts = {i: _cut(sources[i]) for i in self._sandboxed}
        self._pool = Pool([asdict(sources[i]) for i in self._sandboxed], spec) if self._sandboxed else None

    def __enter__(self) -> Scorer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def isolation(self) -> Mapping[str, bool]:
        """What is in force for child processes, known from `start` on; empty where there are none.

        "memory" (limited), "network" (cut off), "descendants" (die with the child, whatever they do),
        "files_of_code" (read-only for what the reward `code` runs).
        """
        return {} if self._pool is None else dict(self._pool.isolation)

    @property
    def one_by_one(self) -> bool:
        """Whether a completion's rewards depend on no other completion: on none that a function sees with it,
        or that spends the time of its call."""
        return not self._sandboxed and not self._trusted

    def start(self) -> None:
        """Import all functions now. Raises RecipeError for those that cannot be."""
        if self._pool is not None:
            self._pool.start()

    def close(self) -> None:
        """End all child processes. The scorer cannot be used afterwards."""
        if self._pool is not None:
            self._pool.close()

    def score(
        self,
        problems_N: Sequence[Problem],
        completions_N: Sequence[str],
        completion_ids_N: Sequence[list[int]] | None = None,
        *,
        group_size: int | None = None,
    ) -> Scores:
        """Rewards of N completions, one problem each, in groups of `group_size` neighbours.

        Without a size, neighbours with the same problem are one group, also where two were meant.

        Never fails because of what a function does: see `Scores` for what stays unscored. Takes at most
        `budget_s`, and what the first start and built-ins in process need. Raises ValueError for lists of
        different length, or of another length than whole groups.
        """
        self.start()
        until = time.monotonic() + self._spec.budget_s
        batch = make_batch(problems_N, completions_N, completion_ids_N)
        outcomes = [Outcome([None] * len(batch)) for _ in self._names_F]
        if len(batch):
            groups = groups_of(problems_N, group_size)
            self._in_process(batch, groups, outcomes, until)
            if self._pool is not None:
                self._in_children(self._pool, batch, groups, outcomes, until)
        return combine(self._names_F, self._weights_F, outcomes, len(batch))

    def _in_process(
        self, batch: Batch, groups: Sequence[range], outcomes: Sequence[Outcome], until: float
    ) -> None:
        def run(pieces: list[Piece]) -> list[Result]:
            return [self._run_here(piece.function, batch.part(piece.rows), until) for piece in pieces]

        def smaller(piece: Piece, failure: Failure) -> list[range]:
            # A thread that hangs cannot be ended, so there is no second try that might hang as well.
            if failure.reason in ("timeout", "budget", "wrong length"):
                return []
            return _USER_CUT.smaller(piece.rows, groups)

        whole = range(len(batch))
        settle([Piece(i, whole) for i in (*self._inline, *self._trusted)], run, smaller, outcomes)

    def _run_here(self, function: int, batch: Batch, until: float) -> Result:
        if function in self._inline:
            return attempt(self._inline[function].call, batch)
        now = time.monotonic()
        if now >= until:
            return Failure("budget", f"scoring.budget_s = {self._spec.budget_s:g} was spent")
        return _in_thread(self._trusted[function], batch, min(self._spec.deadline_s, until - now))

    def _in_children(
        self, pool: Pool, batch: Batch, groups: Sequence[range], outcomes: Sequence[Outcome], until: float
    ) -> None:
        def run(pieces: list[Piece]) -> list[Result]:
            return pool.run([(self._request(pool, batch, piece), len(piece.rows)) for piece in pieces], until)

        def smaller(piece: Piece, failure: Failure) -> list[range]:
            if failure.reason in ("budget", "closed", "wrong length"):
                return []
            return self._cuts[piece.function].smaller(piece.rows, groups)

        pieces = [Piece(i, rows) for i in self._sandboxed for rows in self._cuts[i].pieces(groups)]
        settle(pieces, run, smaller, outcomes)

    def _request(self, pool: Pool, batch: Batch, piece: Piece) -> Request:
        part = batch.part(piece.rows)
        number = self._sandboxed.index(piece.function)
        return {
            "function": number,
            "prompts": part.prompts,
            "completions": part.completions,
            "completion_ids": part.completion_ids if pool.needs_ids[number] else None,
            "columns": part.columns,
            "seed": zlib.crc32(repr((part.prompts, part.completions)).encode("utf-8", "backslashreplace")),
        }


def in_process(spec: RewardSpec) -> bool:
    """Whether a reward runs outside the sandbox because the recipe says so: a trusted function, or a trained
    reward model, which is data and needs torch."""
    return spec.trusted or spec.type == "reward-model"


def source_of(spec: RewardSpec, index: int) -> RewardSource:
    if spec.type == "reward-model":
        arguments = {**spec.arguments, "path": spec.path}
        return RewardSource(f"rewards[{index}]", "reward-model", None, "trl", arguments)
    where, colon, function = (spec.path or "").rpartition(":")
    path = spec.path
    if where.endswith(".py"):  # absolute, for workers that start after somebody has changed the folder
        path = f"{Path(where).expanduser().absolute()}{colon}{function}"
    return RewardSource(f"rewards[{index}]", spec.name, path, spec.style, dict(spec.arguments))


def _is_inline(source: RewardSource) -> bool:
    return source.name in _INLINE and "pattern" not in source.arguments


def _cut(source: RewardSource) -> Cut:
    rows: Any = _ROWS_PER_CALL.get(source.name or "")
    return _USER_CUT if rows is None else Cut(rows, whole_groups=False)


def check_code(source: RewardSource, trusted: bool, spec: ScoringSpec) -> None:
    if source.name not in ("code", "program"):
        return
    if trusted:
        problem = "code that the model wrote never runs in this process."
        raise RecipeError(f"{source.field}.trusted", problem, f'Leave it out for the reward "{source.name}".')
    if source.name == "program":
        return
    timeout_s = source.arguments.get("timeout_s", code.DEFAULT_TIMEOUT_S)
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s < spec.deadline_s:
        problem = (
            f"timeout_s = {timeout_s!r}, but a call may take scoring.deadline_s = {spec.deadline_s:g} s."
        )
        remedy = "Give programs a time above 0 and below that, or raise scoring.deadline_s."
        raise RecipeError(f"{source.field}.arguments", problem, remedy)


def _in_thread(reward: Reward, batch: Batch, seconds: float) -> Result:
    results: list[Result] = []
    thread = threading.Thread(
        target=lambda: results.append(attempt(reward.call, batch)), name="hanse-trusted-reward", daemon=True
    )
    thread.start()
    thread.join(seconds)
    return (
        results[0] if results else Failure("timeout", f"no result within {seconds:g} s; its thread goes on")
    )
