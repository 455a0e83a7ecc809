"""Defences and nodes of a swarm, in numbers."""

from __future__ import annotations

from hanse.runs.report.data import ReportData
from hanse.runs.report.formats import MISSING, fixed, share, short
from hanse.runs.report.markup import Html, join, tag
from hanse.runs.report.reading import late, numbered, settings, values
from hanse.runs.report.swarm_words import liars
from hanse.runs.report.tables import table

REJECTED, SECONDS, OF_NODE = "swarm/rejected/", "swarm/seconds/", "nodes/"
FORWARD = "forward"
"""The forward pass that all defences share, among their seconds."""
_TIME = "time/round"

_DEFENCES = """What each defence rejected and took, a round. A completion counts where it was rejected first.
Share of time: of the whole round."""
_NODES = (
    "What each node sent, over the last quarter of the rounds. Accepted: the share that no defence rejected."
)


def defences(data: ReportData) -> Html:
    """A row a defence, in the order of the chain; nothing where there is none."""
    rows = [row for row in numbered(data.rounds) if row["round"] > 0]
    keys = [key for kind in (SECONDS, REJECTED) for row in rows for key in row if key.startswith(kind)]
    found = dict.fromkeys(key.split("/", 2)[2] for key in keys)
    if set(found) <= {FORWARD}:
        return Html()
    names = [name for name in found if name != FORWARD] + [name for name in found if name == FORWARD]
    total = sum(values(rows, _TIME))
    body = []
    for name in names:
        seconds = sum(values(rows, SECONDS + name))
        rejected = sum(values(rows, REJECTED + name)) / len(rows)
        told = [MISSING if name == FORWARD else fixed(rejected, 1), _brief(seconds / len(rows))]
        of_time = share(seconds / total) if total > 0 else MISSING
        body.append(["forward pass for all" if name == FORWARD else name, *told, of_time])
    heads = ["defence", "rejected a round", "time a round", "share of time"]
    kept = heads if total > 0 else heads[:-1]
    caption = " ".join(_DEFENCES.split()) if total > 0 else " ".join(_DEFENCES.split()).split(" Share")[0]
    return join(tag("h3", "Defences"), table(caption, kept, [row[: len(kept)] for row in body]))


def _brief(seconds: float) -> str:
    return f"{short(1000 * seconds)} ms" if seconds < 1 else f"{short(seconds)} s"


def nodes(data: ReportData) -> Html:
    """A row a node, liars marked."""
    rows = numbered(data.rounds)
    keys = [key for row in rows for key in row if key.startswith(OF_NODE)]
    names = sorted({key.removeprefix(OF_NODE).rpartition("/")[0] for key in keys}, key=_by_number)
    if not names:
        return Html()
    lying = liars(settings(data))
    body = [
        [
            name,
            tag("span", "lies", class_="badge trouble") if name in lying else "honest",
            fixed(late(values(rows, f"{OF_NODE}{name}/reward"))),
            fixed(late(values(rows, f"{OF_NODE}{name}/length")), 1),
            share(late(values(rows, f"{OF_NODE}{name}/accepted"))),
        ]
        for name in names
    ]
    heads = ["node", "", "reward", "length", "accepted"]
    return join(tag("h3", "Nodes"), table(_NODES, heads, body, texts=2))


def _by_number(name: str) -> tuple[int, str]:
    number = name.rpartition("-")[2]
    return (int(number) if number.isascii() and number.isdigit() else 1 << 62, name)
