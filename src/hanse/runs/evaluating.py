"""Evaluation of a run's models: validation from round to round, held-out problems before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hanse.grpo.evaluation import EvaluationJob, LevelResult, level_of, summarise
from hanse.recipe.model import EvaluationSpec
from hanse.runs.models import Model
from hanse.runs.training import Training
from hanse.tasks.partition import ClientData
from hanse.tasks.problem import Problem, Split

_RECORDED = 3


@dataclass(frozen=True)
class Levels:
    """The levels of each split, how many training problems every client has, and how many of each level:
    nothing of the latter where problems are private."""

    validation: list[str]
    held_out: list[str]
    clients: dict[str, dict[str, int]]
    sizes: dict[str, int]

    @classmethod
    def of(
        cls,
        levels: Callable[[Split], Mapping[str, Sequence[Problem]]],
        parts: list[ClientData],
        column: str,
        *,
        private: bool = False,
    ) -> Levels:
        clients: dict[str, dict[str, int]] = {part.name: {} for part in parts}
        sizes = {part.name: len(part.problems) for part in parts}
        for part in [] if private else parts:
            counts = clients[part.name]
            for problem in part.problems:
                name = level_of(problem, column)
                counts[name] = counts.get(name, 0) + 1
        return cls(list(levels("validation")), list(levels("held_out")), clients, sizes)

    def partition_rows(self) -> list[dict[str, Any]]:
        """One row a client: its problems, in all and by level; of those that it keeps to itself, nothing."""
        return [
            {**counts, "client": name} | ({"problems": size} if (size := self.sizes[name]) else {})
            for name, counts in self.clients.items()
        ]

    @property
    def training(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for counts in self.clients.values():
            for level, count in counts.items():
                total[level] = total.get(level, 0) + count
        return total


def validate(
    training: Training, models: Sequence[Model], levels: Levels, spec: EvaluationSpec
) -> dict[str, Any]:
    """Sampled accuracy on validation problems (held-out ones where there is no validation split)."""
    split: Split = "validation" if levels.validation else "held_out"
    names = levels.validation or levels.held_out
    jobs = [EvaluationJob(split, name, spec.problems_per_level, spec.samples) for name in names]
    merged = _mean([summarise(training.evaluate(m, jobs), levels.training) for m in models])
    row = {"evaluation/accuracy": merged["accuracy"], "evaluation/worst_level": merged["worst_level"]}
    if "attack_success" in merged:
        row["evaluation/attack_success"] = merged["attack_success"]
    return row | {f"evaluation/by_level/{k}": v for k, v in merged["by_level"].items()}


def examine(
    training: Training, models: Sequence[Model], levels: Levels, spec: EvaluationSpec
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The held-out evaluation, sampled and greedy; and some completions as text."""
    count, samples = spec.final_problems_per_level, spec.final_samples
    sampled = [EvaluationJob("held_out", k, count, samples, record=_RECORDED) for k in levels.held_out]
    greedy = [replace(job, samples=1, greedy=True) for job in sampled]
    reports, records = [], []
    for model in models:
        results = training.evaluate(model, sampled + greedy)
        first, second = results[: len(sampled)], results[len(sampled) :]
        reports.append(_report(first, second, model, levels))
        records += [dict(row, cohort=model.name) for r in results for row in r.records]
    return _mean(reports), records


def _report(
    sampled: list[LevelResult], greedy: list[LevelResult], model: Model, levels: Levels
) -> dict[str, Any]:
    report = summarise(sampled, levels.training)
    best = summarise(greedy)
    report |= {"accuracy_greedy": best["accuracy"], "by_level_greedy": best["by_level"]}
    mine = {k: v for k, v in levels.clients.items() if model.name in (None, k)}
    own = {name: _weighted(report["by_level"], counts) for name, counts in mine.items()}
    return report | {"by_client": {name: value for name, value in own.items() if value is not None}}


def _weighted(by_level: Mapping[str, float], counts: Mapping[str, int]) -> float | None:
    """A client's accuracy on its own mix of levels."""
    total = sum(counts.get(level, 0) for level in by_level)
    if not total:
        return None
    return sum(accuracy * counts.get(level, 0) for level, accuracy in by_level.items()) / total


def _mean(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean over models of numbers and of dictionaries of numbers; clients are united, not averaged."""
    if len(reports) == 1:
        return reports[0]
    merged: dict[str, Any] = {}
    for key in reports[0]:
        values = [report[key] for report in reports if report.get(key) is not None]
        if key == "errors":
            merged[key] = [error for value in values for error in value]
        elif key == "by_client":
            merged[key] = {name: v for value in values for name, v in value.items()}
        elif values and isinstance(values[0], dict):
            names = dict.fromkeys(name for value in values for name in value)
            merged[key] = {n: sum(v.get(n, 0.0) for v in values) / len(values) for n in names}
        else:
            merged[key] = sum(values) / len(values) if values else None
    return merged
