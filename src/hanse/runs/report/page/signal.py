"""What each client tells the server for free: reward, spread within groups, and the weight it got."""

from __future__ import annotations

from hanse.runs.report.data import ReportData, Row
from hanse.runs.report.page.charts import MANY, Axes, Series, looks, small_chart
from hanse.runs.report.page.curves import share
from hanse.runs.report.page.markup import Child, Html, el
from hanse.runs.report.page.numbers import count, plain
from hanse.runs.report.page.reading import (
    client_key,
    clients,
    mean,
    mean_points,
    points,
    refusals,
    total,
    values,
)
from hanse.runs.report.page.scales import span_of
from hanse.runs.report.page.tables import folded, table
from hanse.runs.report.page.tables import section as part

_METRICS = (
    ("reward", "Mean reward", "How well the client's problems go."),
    (
        "reward_std",
        "Spread within groups",
        "Standard deviation of rewards within a group: what GRPO learns from.",
    ),
    ("weight", "Weight in the average", "The client's share of the new model."),
)
_SHOWN = 24


def signal(data: ReportData) -> Html:
    names = clients(data)
    if not names:
        return part("clients", "Clients", el("p", "No client has reported yet.", class_="empty"))
    shown = names[:_SHOWN]
    cut = f"Charts show the first {_SHOWN} of {len(names)} clients." if len(names) > _SHOWN else None
    return part(
        "clients",
        "Clients, one by one",
        el("p", "The grey line is the mean of all clients; a cross marks a refused upload.", class_="note"),
        el("p", cut, class_="note") if cut else None,
        *[_row_of_charts(data, names, shown, *metric) for metric in _METRICS],
        _table(data, names),
    )


def _row_of_charts(
    data: ReportData, names: list[str], shown: list[str], key: str, title: str, why: str
) -> Html:
    lines = {name: points(data.rounds, client_key(name, key)) for name in names}
    ys = span_of([y for line in lines.values() for _, y in line])
    average = Series("mean of all clients", mean_points(list(lines.values())), "mean")
    look = {name: i for i, name in enumerate(names)} if len(names) > MANY else looks(names)
    refused = {name: _refused(data, name) for name in shown}
    charts = [
        el(
            "figure",
            el("figcaption", el("span", class_=f"dot s{int(look[name]) % 8}", aria_hidden="true"), name),
            small_chart(
                [average, Series(name, lines[name], look[name])],
                Axes(f"{title}: {name}", title, plain, ys),
                refused[name],
            ),
        )
        for name in shown
    ]
    heading = el("h3", title, " ", el("small", why))
    return el("div", heading, el("div", *charts, class_="multiples"), class_="metric")


def _refused(data: ReportData, client: str) -> tuple[tuple[float, float], ...]:
    return tuple((at, 0.0) for at, name, _ in refusals(data) if name == client and at is not None)


def _table(data: ReportData, names: list[str]) -> Html:
    head = ["client", "reward first", "last", "spread", "groups without signal", "cut off", "mean weight"]
    head += ["update norm", "refused", "tokens"]
    rows = [_row(data, name) for name in names]
    caption = "Each client over the whole run; spread, shares, weight and norm are means"
    return folded("Clients in numbers", table(caption, head, rows), open_=True)


def _row(data: ReportData, name: str) -> list[Child]:
    mine: list[Row] = [row for row in data.steps if str(row.get("client")) == name]

    def of(metric: str) -> list[float]:
        return values(data.rounds, client_key(name, metric))

    rewards = of("reward")
    return [
        name,
        plain(rewards[0] if rewards else None),
        plain(rewards[-1] if rewards else None),
        plain(mean(of("reward_std"))),
        _percent(mean(values(mine, "frac_reward_zero_std"))),
        _percent(mean(values(mine, "completions/clipped_ratio"))),
        plain(mean(of("weight"))),
        plain(mean(of("update_norm"))),
        str(len(_refused(data, name))),
        count(total(mine, "num_tokens")),
    ]


def _percent(value: float | None) -> str:
    return plain(value) if value is None else share(value)
