"""What the run cost: bytes and seconds."""

from __future__ import annotations

from hanse.runs.report.data import ReportData
from hanse.runs.report.page.markup import Child, Html, el
from hanse.runs.report.page.numbers import count, duration, finite, size
from hanse.runs.report.page.reading import clients, section, total
from hanse.runs.report.page.tables import section as part
from hanse.runs.report.page.tables import table

_PARTS = (("time/sample", "sampling"), ("time/score", "scoring"), ("time/train", "training"))


def cost(data: ReportData) -> Html:
    return part("cost", "Bytes and seconds", el("div", _bytes(data), _seconds(data), class_="pair"))


def _bytes(data: ReportData) -> Html:
    known = section(data, "bytes")
    rounds = len([row for row in data.rounds if (finite(row.get("round")) or 0) > 0])
    people = len(clients(data))
    rows: list[list[Child]] = []
    for label, key in (("up: clients to server", "up"), ("down: server to clients", "down")):
        whole = finite(known.get(key, total(data.rounds, f"comm/bytes_{key}")))
        each = whole / rounds if whole is not None and rounds else None
        rows.append(
            [label, size(whole), size(each), size(each / people if each is not None and people else None)]
        )
    nothing = all(row[1] == "0 B" for row in rows)
    note = f"Mode {data.mode}: nothing is exchanged." if nothing else "Messages as encoded, before transport."
    head = ["direction", "whole run", "a round", "a client and round"]
    return el("div", el("h3", "Bytes"), table("Bytes exchanged", head, rows), el("p", note, class_="note"))


def _seconds(data: ReportData) -> Html:
    seconds = data.summary.get("seconds")
    lines = [
        ("wall clock, with evaluation", duration(seconds)),
        ("warm-up of the policy", duration(data.summary.get("seconds_warmup"))),
        ("tokens processed", count(total(data.rounds, "num_tokens"))),
    ]
    spent = [(name, total(data.rounds, key)) for key, name in _PARTS]
    whole = total(data.rounds, "step_time")
    known = [(name, value) for name, value in spent if value is not None]
    if whole is not None and known and (rest := whole - sum(v for _, v in known)) > 0.005 * whole:
        known.append(("other", rest))
    note = "Time of local steps, added over clients: side by side, clients can exceed the wall clock."
    facts = el("dl", *[el("div", el("dt", k), el("dd", v)) for k, v in lines], class_="facts")
    return el("div", el("h3", "Seconds"), _split(known), facts, el("p", note, class_="note"))


def _split(parts: list[tuple[str, float]]) -> Html | None:
    whole = sum(value for _, value in parts)
    if whole <= 0:
        return el("p", "No timings yet.", class_="empty")
    pieces, at = [], 0.0
    for i, (name, value) in enumerate(parts):
        width = 100 * value / whole
        title = el("title", f"{name}: {duration(value)}")
        pieces.append(
            el("rect", title, x=round(at, 2), y=0, width=round(width, 2), height=10, class_=f"piece s{i}")
        )
        at += width
    key = [
        el(
            "li",
            el("span", class_=f"dot s{i}", aria_hidden="true"),
            f"{name} {100 * value / whole:.0f}% ({duration(value)})",
        )
        for i, (name, value) in enumerate(parts)
    ]
    bar = el(
        "svg",
        el("title", "Time split"),
        *pieces,
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        class_="split",
        role="img",
    )
    return el("div", bar, el("ul", *key, class_="legend"))
