"""Accuracy on problems that nobody trains on, with common random numbers from round to round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hanse.grpo.step import Scoring
from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampler, Sampling
from hanse.randomness import derive_seed, generator
from hanse.tasks.problem import Problem, Split, Task


@dataclass(frozen=True)
class EvaluationJob:
    """One level of one split: `problems` of them, `samples` completions each, or one greedy completion."""

    split: Split
    level: str
    problems: int
    samples: int
    greedy: bool = False
    record: int = 0
    """How many problems' first completions to return as text."""


@dataclass(frozen=True)
class LevelResult:
    """`accuracy` is the mean of the first reward function over scored completions, None if none was.

    `solved` is the share of problems with at least one full mark (pass@samples); `shown` that of completions
    that show what an attack plants, None where nobody looks for it.
    """

    level: str
    accuracy: float | None
    solved: float | None
    completions: int
    unscored: int
    problems: int
    mean_length: float
    records: tuple[dict[str, Any], ...] = ()
    errors: tuple[str, ...] = ()
    shown: float | None = None
    process: Mapping[str, float] = field(default_factory=dict)
    """Figures about the way to the answer, where asked for (`grpo.process`)."""

    def to_row(self) -> dict[str, Any]:
        return asdict(self)


Process = Callable[[Sequence[Problem], Sequence[str], Sequence[int], Sequence[float]], Mapping[str, float]]
"""(problems, completions, their lengths in tokens, marks; NaN = unscored) -> figures by name."""


def level_of(problem: Problem, column: str) -> str:
    """The level under which a problem is reported; "all" where the column is missing."""
    value = problem.metadata.get(column)
    return "all" if value is None else str(value)


def problems_by_level(problems: Sequence[Problem], column: str) -> dict[str, list[Problem]]:
    """Problems of each level, levels in natural order."""
    levels: dict[str, list[Problem]] = {}
    for problem in problems:
        levels.setdefault(level_of(problem, column), []).append(problem)
    return {level: levels[level] for level in sorted(levels, key=lambda text: (len(text), text))}


def levels_by_split(task: Task, column: str) -> dict[Split, dict[str, list[Problem]]]:
    """The same of every split."""
    splits: tuple[Split, ...] = ("train", "validation", "held_out")
    return {split: problems_by_level(task.problems(split), column) for split in splits}


def choose(problems: Sequence[Problem], count: int, *seed: int | str) -> list[Problem]:
    """`count` of the problems (all, if fewer), the same ones whenever asked."""
    if len(problems) <= count:
        return list(problems)
    picked = generator(*seed).choice(len(problems), count, replace=False)
    return [problems[i] for i in sorted(picked.tolist())]


def evaluate_level(
    policy: Policy,
    sampling: Sampling,
    scorer: Scoring,
    pool: Sequence[Problem],
    job: EvaluationJob,
    seed: int,
    shows: Callable[[str], bool] | None = None,
    process: Process | None = None,
) -> LevelResult:
    """Sample and score one job. The same job gives the same random numbers for every policy. `shows`: whether
    a completion has what is counted as `LevelResult.shown`; `process`: reads the way to the answer."""
    problems = choose(pool, job.problems, seed, "evaluation", job.split, job.level)
    samples = 1 if job.greedy else job.samples
    sampler = Sampler(policy, replace(sampling, greedy=job.greedy))
    ids = _completions(sampler, problems, samples, job, seed)
    texts = policy.decode(ids)
    repeated = [problem for problem in problems for _ in range(samples)]
    scores = scorer.score(repeated, texts, ids, group_size=samples)
    marks = np.where(np.isnan(scores.totals_N), np.nan, scores.values_FN[0])
    known = marks[~np.isnan(marks)]
    return LevelResult(
        level=job.level,
        accuracy=float(known.mean()) if known.size else None,
        solved=_solved(marks, samples),
        completions=len(texts),
        unscored=len(texts) - known.size,
        problems=len(problems),
        mean_length=float(np.mean([len(row) for row in ids])),
        records=tuple(_records(job, problems, texts, scores.totals_N, samples)),
        errors=scores.examples,
        shown=None if shows is None else float(np.mean([shows(text) for text in texts])),
        process={} if process is None else process(repeated, texts, list(map(len, ids)), marks.tolist()),
    )


def _completions(
    sampler: Sampler, problems: Sequence[Problem], samples: int, job: EvaluationJob, seed: int
) -> list[list[int]]:
    """Token ids of the samples of each problem, one after another."""
    seeds = [derive_seed(seed, "evaluation", job.split, problem.id) for problem in problems]
    return [row for group in sampler.sample(problems, samples, seeds) for row in group.token_ids_G()]


def _solved(marks: NDArray[np.float64], samples: int) -> float:
    """The share of problems with at least one right sample; unscored ones are none."""
    best = np.nan_to_num(marks.reshape(-1, samples), nan=0.0).max(1)
    return float((best >= 1).mean())


def _records(
    job: EvaluationJob, problems: Sequence[Problem], texts: Sequence[str], totals_N: Any, samples: int
) -> list[dict[str, Any]]:
    rows = []
    for i, problem in enumerate(problems[: job.record]):
        reward = float(totals_N[i * samples])
        rows.append(
            {
                "problem_id": problem.id,
                "level": job.level,
                "prompt": problem.prompt
                if isinstance(problem.prompt, str)
                else problem.prompt[-1]["content"],
                "completion": texts[i * samples],
                "answer": problem.answer,
                "reward": None if reward != reward else reward,
                "greedy": job.greedy,
            }
        )
    return rows


def _process(results: Sequence[LevelResult]) -> dict[str, float]:
    """Means over the levels that have a figure."""
    names = dict.fromkeys(name for r in results for name in r.process)
    found = {name: [r.process[name] for r in results if name in r.process] for name in names}
    return {name: sum(values) / len(values) for name, values in found.items()}


def summarise(results: Sequence[LevelResult], weights: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Mean over levels, mean weighted by `weights` (training problems a level), and the worst level."""
    known = {r.level: r.accuracy for r in results if r.accuracy is not None}
    if not known:
        none: dict[str, Any] = {
            "accuracy": None,
            "accuracy_by_sample": None,
            "worst_level": None,
            "by_level": {},
        }
        return none | {"errors": sorted({error for r in results for error in r.errors})[:3]}
    shares = {level: (weights or {}).get(level, 0) for level in known}
    shown = [r.shown for r in results if r.shown is not None]
    planted = {"attack_success": sum(shown) / len(shown)} if shown else {}
    planted |= _process(results)
    total = sum(shares.values())
    by_sample = sum(known[k] * n for k, n in shares.items()) / total if total else None
    return planted | {
        "accuracy": sum(known.values()) / len(known),
        "accuracy_by_sample": by_sample,
        "worst_level": min(known.values()),
        "by_level": known,
        "solved": sum(r.solved or 0.0 for r in results) / len(results),
        "unscored": sum(r.unscored for r in results),
        "mean_length": sum(r.mean_length for r in results) / len(results),
    }
