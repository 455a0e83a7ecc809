"""study.json: every arm's runs, their statistics, and how the arms differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hanse import __version__
from hanse.randomness import generator
from hanse.recipe.study import ArmSpec
from hanse.recipe.study_checks import flat
from hanse.runs.environment import environment
from hanse.runs.report.formats import known
from hanse.runs.report.reading import mean, values
from hanse.runs.study import defence, preferences
from hanse.runs.study.plan import Plan, best_trial
from hanse.runs.study.records import PROCESS, Record, record
from hanse.runs.study.statistics import Key, compare, holm, paired, summarise
from hanse.runs.study.swarm import of_arm

SUMMARISED = ("accuracy_greedy", "by_sample", "worst_level", "solved")

Accuracies = Mapping[str, Mapping[Key, float]]


def study_document(plan: Plan, command: str) -> dict[str, Any]:
    """What the study's folder holds now: the same for the same runs, apart from seconds.

    Raises RunError where a run is damaged.
    """
    spec, study = plan.study.spec, plan.study
    arms = {arm.name: _arm(plan, arm) for arm in spec.arms}
    accuracies = {name: _accuracies(arm["runs"]) for name, arm in arms.items()}
    for name, arm in arms.items():
        arm["difference"] = None if name == spec.baseline else _difference(accuracies, name, spec.baseline)
    return {
        "name": spec.name,
        "hanse": __version__,
        "baseline": spec.baseline,
        "seeds": spec.seeds,
        "starts": spec.starts,
        "development_seeds": spec.development_seeds,
        "accuracy_targets": spec.accuracy_targets,
        "arms": arms,
        "contrasts": _contrasts(plan, accuracies),
        "command": command,
        "overrides": list(study.overrides),
        "machine": _machine(),
    }


def failures(document: Mapping[str, Any]) -> list[str]:
    """Every failed run of a study in words."""
    return [
        f"{name}{_where(failed)}: {failed['error']}"
        for name, arm in document["arms"].items()
        for failed in arm["failed"]
    ]


def _where(failed: Mapping[str, Any]) -> str:
    parts = [f"{key} {failed[key]}" for key in ("trial", "seed", "start") if failed[key] is not None]
    return f", {', '.join(parts)}" if parts else ""


def _arm(plan: Plan, arm: ArmSpec) -> dict[str, Any]:
    spec = plan.study.spec
    jobs = plan.reported(arm)
    runs = [
        record(job, spec.accuracy_targets, spec.rounds_of_interest) for job in jobs or [] if job.finished()
    ]
    swarm, hostile, preferred = of_arm(runs), defence.of_arm(runs), preferences.of_arm(runs)
    return {
        "label": arm.title,
        **({"group": arm.group} if arm.group else {}),
        "settings": flat(arm.settings) | (plan.chosen(arm) or {}),
        "published": arm.published,
        "planned": len(plan.pairs()),
        "runs": runs,
        **summarise(values(runs, "accuracy")).to_json(),
        **{key: summarise(values(runs, key)).to_json() for key in SUMMARISED},
        **{key: summarise(found).to_json() for key in PROCESS if (found := values(runs, key))},
        "by_level": _by_level(runs),
        "bytes": {way: mean(values([run["bytes"] for run in runs], way)) for way in ("up", "down")},
        "rollouts": mean(values(runs, "rollouts")),
        "compression": mean(values(runs, "compression")),
        "rounds_to": {f"{target:g}": _reached(runs, f"{target:g}") for target in spec.accuracy_targets},
        **({} if swarm is None else {"swarm": swarm}),
        **({} if hostile is None else {"defence": hostile}),
        **({} if preferred is None else {"reward_model": preferred}),
        "tuning": _tuning(plan, arm),
        "failed": _failed(plan, arm),
    }


def _by_level(runs: Sequence[Record]) -> dict[str, Any]:
    levels = dict.fromkeys(level for run in runs for level in run["by_level"])
    return {level: summarise(values([run["by_level"] for run in runs], level)).to_json() for level in levels}


def _reached(runs: Sequence[Record], target: str) -> dict[str, Any]:
    """Over the runs that reach the target; those that do not are counted, not guessed."""
    rounds = values([run["rounds_to"] for run in runs], target)
    return {"reached": len(rounds), "n": len(runs), "mean": mean(rounds)}


def _tuning(plan: Plan, arm: ArmSpec) -> dict[str, Any] | None:
    if not arm.tune:
        return None
    trials = plan.trials(arm)
    best = best_trial(trials)
    told = [{key: trial[key] for key in ("settings", "scores", "score")} for trial in trials]
    return {"trials": told, "best": best, "chosen": None if best is None else trials[best]["settings"]}


def _failed(plan: Plan, arm: ArmSpec) -> list[dict[str, Any]]:
    jobs = [job for trial in plan.tuning(arm) for job in trial] + (plan.reported(arm) or [])
    return [
        {"trial": job.trial, "seed": job.seed, "start": job.start, "error": error}
        for job in jobs
        if (error := job.error()) is not None
    ]


def _accuracies(runs: Sequence[Record]) -> dict[Key, float]:
    found = (((run["seed"], run["start"]), known(run["accuracy"])) for run in runs)
    return {key: accuracy for key, accuracy in found if accuracy is not None}


def _difference(accuracies: Accuracies, first: str, second: str) -> dict[str, Any]:
    """The same numbers for the same pair, whatever else is compared."""
    rng = generator("study", "bootstrap", first, second)
    return compare(paired(accuracies[first], accuracies[second]), rng)


def _contrasts(plan: Plan, accuracies: Accuracies) -> list[dict[str, Any]]:
    found = [
        {"name": contrast.name, "arms": contrast.arms, **_difference(accuracies, *contrast.arms)}
        for contrast in plan.study.spec.contrasts
    ]
    adjusted = holm([contrast["p"] for contrast in found])
    return [contrast | {"p_holm": p} for contrast, p in zip(found, adjusted, strict=True)]


def _machine() -> dict[str, str]:
    """The environment of the runs, which have one thread each, and the processor."""
    return environment() | {"torch threads": "1", "processor": _processor()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "unknown")
