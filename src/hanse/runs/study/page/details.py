"""How settings were chosen, every single run, and what it all ran on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hanse.runs.report.formats import MISSING, duration, fixed, known, size, whole
from hanse.runs.report.markup import Html, Section, escape, folded, section, tag
from hanse.runs.report.tables import table
from hanse.runs.study.page.data import Arm, StudyData

_TUNING = """Each trial ran on the development seeds, which no reported run uses. Its score is the mean of the
last three validation accuracies, then over seeds. Held-out problems chose nothing."""


def tuning(data: StudyData) -> Section:
    rows = [row for arm in data.arms if arm.told["tuning"] for row in _trials(arm)]
    told = tag("p", " ".join(_TUNING.split())) if rows else None
    heads = ["arm", "settings", "score", "by seed", "chosen"]
    return section("tuning", "Tuning", told, table("Every trial", heads, rows, texts=2))


def _trials(arm: Arm) -> list[list[str]]:
    found = arm.told["tuning"]
    return [
        [
            arm.label,
            _settings(trial["settings"]),
            fixed(trial["score"]),
            ", ".join(fixed(score) for score in trial["scores"].values()),
            "✓" if i == found["best"] else "",
        ]
        for i, trial in enumerate(found["trials"])
    ]


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in settings.items()) or MISSING


def runs(data: StudyData) -> Section:
    arms = [[arm.label, _settings(arm.told["settings"])] for arm in data.arms]
    settings = table("What sets each arm apart from the base recipe", ["arm", "settings"], arms, texts=2)
    rows = [_run(arm, run) for arm in data.arms for run in arm.told["runs"]]
    heads = [
        "arm",
        "seed",
        "start",
        "accuracy",
        "greedy",
        "worst level",
        "up",
        "down",
        "rollouts",
        "time",
        "policy",
    ]
    kept = [i for i in range(len(heads)) if i == 0 or any(row[i] != MISSING for row in rows)]
    every = table("Every run", [heads[i] for i in kept], [[row[i] for i in kept] for row in rows])
    failed = [[arm.label, _which(run), run["error"]] for arm in data.arms for run in arm.told["failed"]]
    trouble = table("Failed runs", ["arm", "run", "error"], failed, texts=3)
    return section(
        "runs", "Runs", trouble, settings, folded(f"All {len(rows)} runs", every) if rows else None
    )


def _run(arm: Arm, run: Mapping[str, Any]) -> list[str]:
    sha = run["policy_sha256"]
    return [
        arm.label,
        str(run["seed"]),
        MISSING if run["start"] is None else str(run["start"]),
        fixed(run["accuracy"]),
        fixed(run["accuracy_greedy"]),
        fixed(run["worst_level"]),
        *(size(run["bytes"].get(way)) if known(run["bytes"].get(way)) else MISSING for way in ("up", "down")),
        whole(run["rollouts"]),
        duration(run["seconds"]),
        tag("code", sha[:12]) if isinstance(sha, str) else MISSING,
    ]


def _which(run: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {run[key]}" for key in ("trial", "seed", "start") if run[key] is not None)


def environment(data: StudyData) -> Section:
    document = data.document
    rows: list[list[str]] = [[str(name), escape(str(value))] for name, value in document["machine"].items()]
    for key in ("seeds", "starts", "development_seeds", "overrides"):
        if document[key]:
            rows.append([key.replace("_", " "), ", ".join(map(str, document[key]))])
    command = tag("pre", document["command"], class_="recipe") if document["command"] else Html()
    return section(
        "environment", "Environment", command, table("What it ran on", ["part", "value"], rows, texts=2)
    )
