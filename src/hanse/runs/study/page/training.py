"""How the arms got there: validation accuracy by round, and accuracy against bytes."""

from __future__ import annotations

from typing import Any

from hanse.runs.report.chart import Chart, Series, line_chart
from hanse.runs.report.formats import MISSING, fixed, known, plural
from hanse.runs.report.markup import Html, Section, section, tag
from hanse.runs.report.tables import table
from hanse.runs.study.page.data import Arm, StudyData
from hanse.runs.study.page.scatter import Cloud, scatter

_MOST_COLOURED = 16


def training(data: StudyData) -> Section:
    lines = [
        Series(arm.label, arm.mean("evaluation/accuracy"), _look(data, i)) for i, arm in enumerate(data.arms)
    ]
    chart = Chart("Validation accuracy", "mean over runs, by round", lines)
    return section("training", "Training", line_chart(chart), _rounds_to(data))


def _look(data: StudyData, index: int) -> int | str:
    """A colour each; where arms are too many to tell apart, only the baseline stands out."""
    if len(data.arms) <= _MOST_COLOURED:
        return index
    return "main" if data.arms[index].name == data.document["baseline"] else "faint"


def _rounds_to(data: StudyData) -> Html:
    targets = [f"{target:g}" for target in data.document["accuracy_targets"]]
    rows = [[arm.label, *(_reached(arm, target) for target in targets)] for arm in data.arms]
    caption = "Rounds until validation accuracy first reaches a target: mean over the runs that do."
    return table(caption, ["arm", *targets], rows) if targets else Html()


def _reached(arm: Arm, target: str) -> Html:
    found = arm.told["rounds_to"].get(target) or {"mean": None, "reached": 0, "n": 0}
    average = MISSING if found["mean"] is None else fixed(found["mean"], 1)
    few = found["reached"] < found["n"]
    return tag(
        "span",
        average,
        tag("span", f" ({found['reached']} of {found['n']})", class_="quiet") if few else None,
    )


def traffic(data: StudyData) -> Section:
    if len(data.arms) > _MOST_COLOURED:
        return section("traffic", "Traffic")
    clouds = [Cloud(arm.label, _points(arm), i) for i, arm in enumerate(data.arms)]
    silent = [cloud.name for cloud in clouds if not cloud.points]
    note = f"Nothing was sent in {plural(len(silent), 'arm')}: {', '.join(silent)}." if silent else None
    drawn = scatter("Accuracy against bytes", "held-out accuracy by bytes sent up in a run", clouds)
    return section("traffic", "Traffic", drawn, tag("p", note, class_="quiet") if drawn and note else None)


def _points(arm: Arm) -> list[tuple[float, float, str]]:
    found = []
    for run in arm.told["runs"]:
        up, accuracy = known(run["bytes"].get("up")), known(run["accuracy"])
        if up and accuracy is not None:
            found.append((up, accuracy, _named(run)))
    return found


def _named(run: dict[str, Any]) -> str:
    return f"seed {run['seed']}" + ("" if run["start"] is None else f", start {run['start']}")
