"""What one finished run says, as study.json tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hanse.runs.report.formats import known
from hanse.runs.report.reading import mean, part
from hanse.runs.study import defence, preferences
from hanse.runs.study.jobs import Job
from hanse.runs.study.plan import curve
from hanse.runs.study.statistics import rounds_to
from hanse.runs.study.swarm import of_run

Record = dict[str, Any]
PROCESS = ("distinct_solutions", "ncr", "tpn")
"""Told where the recipe's evaluation asks for them."""


def record(job: Job, targets: Sequence[float], interest: Sequence[int] = ()) -> Record:
    """`interest`: rounds of a swarm that are told. Raises RunError where a file of the run is damaged."""
    summary, rounds = job.folder.summary() or {}, job.folder.metrics("round")
    final, validation = part(summary, "evaluation", "final"), curve(job.folder)
    found: Record = {
        "seed": job.seed,
        "start": job.start,
        "folder": job.place,
        "accuracy": final.get("accuracy"),
        "accuracy_greedy": final.get("accuracy_greedy"),
        "by_sample": final.get("accuracy_by_sample"),
        "worst_level": final.get("worst_level"),
        "solved": final.get("solved"),
        "by_level": dict(part(final, "by_level")),
        "bytes": dict(part(summary, "bytes")),
        "rollouts": _rollouts(job),
        "rounds": summary.get("rounds"),
        "rounds_to": {f"{target:g}": rounds_to(validation, target) for target in targets},
        "seconds": summary.get("seconds"),
        "policy_sha256": summary.get("policy_sha256"),
    }
    found |= {key: final[key] for key in PROCESS if key in final}
    more: Record = {"compression": _compression(rounds), "swarm": of_run(summary, rounds, interest)}
    more |= {"defence": defence.of_run(summary), "reward_model": preferences.of_run(summary)}
    return found | {key: value for key, value in more.items() if value is not None}


def _rollouts(job: Job) -> int:
    """Completions sampled for training, those of resampled groups included."""
    spec = job.recipe.grpo

    def of(step: Mapping[str, Any]) -> float:
        groups = spec.prompts_per_step + (known(step.get("resampled_groups")) or 0)
        return known(step.get("rollouts")) or groups * spec.group_size

    return round(sum(of(step) for step in job.folder.metrics("step")))


def _compression(rounds: Sequence[Mapping[str, Any]]) -> float | None:
    """The mean over rounds of what a codec reports as its compression, if one does."""
    keys = [key for row in rounds for key in row if key.rpartition("/")[2] == "compression"]
    values = [known(row.get(key)) for key in keys[:1] for row in rounds]
    return mean([value for value in values if value is not None])
