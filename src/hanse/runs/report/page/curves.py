"""Validation accuracy and reward from round to round."""

from __future__ import annotations

from hanse.runs.report.data import ReportData
from hanse.runs.report.page.charts import Axes, Series, looks
from hanse.runs.report.page.markup import Html, el
from hanse.runs.report.page.numbers import finite, plain, score
from hanse.runs.report.page.reading import client_key, clients, level_key, levels, points, section, values
from hanse.runs.report.page.scales import Range
from hanse.runs.report.page.tables import figure
from hanse.runs.report.page.tables import section as part


def curves(data: ReportData) -> Html:
    return part(
        "curves",
        "From round to round",
        el("div", figure(*_accuracy(data)), figure(*_reward(data)), class_="pair"),
        el("p", _note(data), class_="note"),
    )


def _accuracy(data: ReportData) -> tuple[list[Series], Axes]:
    names = levels(data)
    look = looks(names)
    series = [Series("mean over levels", points(data.rounds, "evaluation/accuracy"), "mean")]
    series += [Series(f"level {name}", points(data.rounds, level_key(name)), look[name]) for name in names]
    axes = Axes("Validation accuracy by level", "accuracy, sampled", share, _shared(series))
    return series, axes


def _reward(data: ReportData) -> tuple[list[Series], Axes]:
    names = clients(data)
    look = looks(names)
    series = [Series("mean over clients", points(data.rounds, "reward"), "mean")]
    series += [Series(name, points(data.rounds, client_key(name, "reward")), look[name]) for name in names]
    return series, Axes("Mean training reward by client", "reward", plain, _shared(series))


def _shared(series: list[Series]) -> Range | None:
    """From 0 to 1 where all values are shares."""
    inside = all(0 <= y <= 1 for one in series for _, y in one.points)
    return (0.0, 1.0) if inside else None


def share(value: float) -> str:
    """Percent without needless digits."""
    return f"{100 * value:.3g}%" if 0 <= value <= 1 else score(value)


def _note(data: ReportData) -> str:
    note = (
        "Validation problems differ from the held-out ones above: they are measured while training and "
        "choose the best round. Round 0 is the model before training. Reward is what training itself saw, "
        "on training problems."
    )
    best = section(data, "best")
    if finite(best.get("validation_accuracy")) is not None and values(data.rounds, "round"):
        reached = score(best.get("validation_accuracy"))
        note += f" Best round: {plain(best.get('round'))}, with {reached} validation accuracy (policy-best)."
    return note
