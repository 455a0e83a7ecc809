"""How it went, round by round."""

from __future__ import annotations

from hanse.runs.report.chart import Chart, Series, line_chart, panels, thin
from hanse.runs.report.data import ReportData
from hanse.runs.report.formats import fixed, known, plural, size
from hanse.runs.report.headline import level_series
from hanse.runs.report.markup import Html, Section, folded, section, tag
from hanse.runs.report.reading import OF_CLIENT, clients, numbered, points
from hanse.runs.report.tables import table

_MOST_COLOURED = 16
_MOST_LINES = 100

_DYNAMICS = {
    "policy_grad_signal": ("Learning signal", "mean |advantage|"),
    "grad_norm": ("Gradient norm", "before clipping"),
    "entropy": ("Entropy", "nats a token"),
    "kl": ("KL to the reference", "nats a token"),
    "reward_std": ("Spread within groups", "reward std"),
    "completions/mean_length": ("Completion length", "mean tokens"),
}


def training(data: ReportData) -> Section:
    rounds = numbered(data.rounds)
    charts = [line_chart(accuracy_chart(data)), line_chart(reward_chart(data))]
    small = [
        Chart(title, subject, [Series(title, points(rounds, key))], small=True)
        for key, (title, subject) in _DYNAMICS.items()
    ]
    shown = panels(small)
    inner = tag("h3", "What the optimiser saw") if shown else None
    return section("training", "Training", *charts, inner, shown, _every_round(data))


def accuracy_chart(data: ReportData) -> Chart:
    lines = _with_mean(data, "evaluation/accuracy", level_series(data))
    return Chart("Validation accuracy", "by level and round, sampled", lines)


def reward_chart(data: ReportData) -> Chart:
    named = [(name, f"{OF_CLIENT}{name}/reward") for name in clients(data)]
    if data.mode == "swarm":
        return Chart(
            "Mean reward",
            "of honest nodes, by round",
            [Series("mean", points(numbered(data.rounds), "reward"))],
        )
    thin_lines = f"; thin lines: {plural(len(named), 'client')}" if len(named) > _MOST_COLOURED else ""
    return Chart(f"Mean {data.judged}", f"by client and round{thin_lines}", _with_mean(data, "reward", named))


def _with_mean(data: ReportData, average: str, named: list[tuple[str, str]]) -> list[Series]:
    """The mean and a line for each (name, metric); faint ones where there are too many to tell apart."""
    rounds = numbered(data.rounds)
    mean = Series("mean", points(rounds, average))
    if len(named) == 1 and mean.points:
        return [mean]
    faint = len(named) > _MOST_COLOURED
    lines = [
        Series(name, points(rounds, key), "faint" if faint else slot)
        for slot, (name, key) in enumerate(named[:_MOST_LINES])
    ]
    return [mean, *lines]


def _every_round(data: ReportData) -> Html:
    rounds = numbered(data.rounds)
    if not rounds:
        return Html()
    kept = {x for x, _ in thin([(float(row["round"]), 0.0) for row in rounds])}
    named = [(data.judged, "reward"), ("accuracy", "evaluation/accuracy"), *level_series(data)]
    columns = [(head, key) for head, key in named if points(rounds, key)]
    traffic = [
        (head, f"comm/bytes_{head}") for head in ("up", "down") if points(rounds, f"comm/bytes_{head}")
    ]
    rows = [
        [
            f"{row['round']:g}",
            *(fixed(row.get(key)) for _, key in columns),
            *(size(known(row.get(key))) for _, key in traffic),
        ]
        for row in rounds
        if float(row["round"]) in kept
    ]
    heads = ["round", *(head for head, _ in columns), *(head for head, _ in traffic)]
    left_out = len(rounds) - len(rows)
    caption = "Rounds" + (f" ({plural(left_out, 'round')} left out)" if left_out else "")
    return folded("Every round in numbers", table(caption, heads, rows))
