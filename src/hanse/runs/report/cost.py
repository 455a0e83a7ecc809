"""What the run cost: bytes and seconds."""

from __future__ import annotations

from hanse.runs.report.chart import Chart, Series, panels
from hanse.runs.report.data import ReportData
from hanse.runs.report.formats import duration, known, share, size, whole
from hanse.runs.report.markup import Html, Section, section, tag
from hanse.runs.report.reading import clients, grouped, mean, numbered, part, points, settings, values
from hanse.runs.report.tables import table

_PHASES = {"sample": "sampling", "score": "scoring", "train": "training"}


def cost(data: ReportData) -> Section:
    return section("cost", "Traffic and time", _bytes(data), _split(data), _by_client(data))


def _bytes(data: ReportData) -> Html:
    rounds = numbered(data.rounds)
    up, down = points(rounds, "comm/bytes_up"), points(rounds, "comm/bytes_down")
    if not any(y for _, y in up + down):
        return tag("p", "Nothing was exchanged.") if rounds else Html()
    many, one = _parties(data)
    texts = []
    for direction, found in (("up", up), ("down", down)):
        average = mean([y for _, y in found if y])
        if average:
            texts.append(f"{size(average)} {direction} a round ({size(average / many)} a {one})")
    total = part(data.summary, "bytes")
    texts.append(f"{size(known(total.get('up')))} up and {size(known(total.get('down')))} down in all")
    told = tag("p", "; ".join(texts) + ". Measured on the messages themselves, headers included.")
    lines = [Series(name, found, slot) for slot, (name, found) in enumerate((("up", up), ("down", down)))]
    moving = any(_varies([y for _, y in line.points]) for line in lines)
    chart = Chart("Bytes exchanged", "by round", lines, small=True)
    return tag("div", told, panels([chart]) if moving else None)


def _parties(data: ReportData) -> tuple[int, str]:
    """How many send, and what one of them is called."""
    if data.mode != "swarm":
        return max(1, len(clients(data))), "client"
    nodes = known(part(settings(data), "swarm").get("nodes"))
    return max(1, round(nodes or 1)), "node"


def _varies(numbers: list[float]) -> bool:
    return len(numbers) > 1 and max(numbers) > 1.02 * min(numbers)


def _split(data: ReportData) -> Html:
    """Where the clients' seconds went, as one bar."""
    rounds = numbered(data.rounds)
    spent = {word: sum(values(rounds, f"time/{key}")) for key, word in _PHASES.items()}
    total = sum(spent.values())
    if total <= 0:
        return Html()
    parts = [
        tag("span", style=f"width:{100 * seconds / total:.2f}%", class_=f"c{slot} fill")
        for slot, seconds in enumerate(spent.values())
    ]
    legend = [
        tag("li", tag("span", class_=f"c{slot} fill dot"), word, " ", tag("b", _told(seconds, total)))
        for slot, (word, seconds) in enumerate(spent.items())
    ]
    tokens = sum(values(rounds, "num_tokens"))
    speed = f", {whole(tokens / spent['sampling'])} a second of sampling" if spent["sampling"] > 0 else ""
    note = f"Seconds of all clients together: {duration(total)}."
    note += f" {whole(tokens)} tokens were sampled{speed}." if tokens else ""
    bar = tag("div", *parts, class_="bar", aria_hidden="true")
    return tag("div", bar, tag("ul", *legend, class_="legend"), tag("p", note, class_="quiet"))


def _told(seconds: float, total: float) -> str:
    return f"{share(seconds / total)} ({duration(seconds)})"


def _by_client(data: ReportData) -> Html:
    steps = grouped(data.steps, lambda row: str(row.get("client", "")))
    timed = any(values(data.steps, f"time/{key}") for key in _PHASES)  # not where problems are private
    if len(steps) < 2 or not timed:
        return Html()
    heads = ["client", "steps", *_PHASES.values(), "tokens", "mean length"]
    rows = []
    for name, mine in steps.items():
        lengths = mean(values(mine, "completions/mean_length"))
        spent = [duration(sum(values(mine, f"time/{key}"))) for key in _PHASES]
        tokens = whole(sum(values(mine, "num_tokens")))
        rows.append(
            [name, whole(len(mine)), *spent, tokens, f"{lengths:.1f}" if lengths is not None else "–"]
        )
    return table("Seconds and tokens by client", heads, rows)
