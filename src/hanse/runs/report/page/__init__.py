"""The report page: one HTML file that needs nothing else."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from hanse.runs.report.data import ReportData
from hanse.runs.report.page.cost import cost
from hanse.runs.report.page.curves import curves
from hanse.runs.report.page.examples import examples
from hanse.runs.report.page.headline import header, outcome
from hanse.runs.report.page.health import health
from hanse.runs.report.page.markup import Html, el, join
from hanse.runs.report.page.reference import glossary, partition, setting
from hanse.runs.report.page.signal import signal

__all__ = ["ReportData", "render"]

_NAVIGATION = {
    "outcome": "Accuracy",
    "curves": "Rounds",
    "clients": "Clients",
    "health": "Health",
    "examples": "Completions",
    "cost": "Cost",
    "partition": "Partition",
    "setting": "Recipe",
    "glossary": "Glossary",
}


def render(data: ReportData) -> str:
    """The whole page; every text of the run is escaped."""
    sections = (outcome, curves, signal, health, examples, cost, partition, setting)
    main = el("main", *[make(data) for make in sections], glossary())
    body = el("body", header(data), _navigation(), main, el("footer", f"Hanse · {data.name} · {data.mode}"))
    return "<!doctype html>\n" + el("html", _head(data), body, lang="en") + "\n"


def _head(data: ReportData) -> Html:
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'",
        ),
        el("title", f"{data.name} · Hanse report"),
        el("style", _style()),
    )


def _navigation() -> Html:
    links = [el("li", el("a", label, href=f"#{name}")) for name, label in _NAVIGATION.items()]
    return el("nav", el("ul", *links), aria_label="Sections")


@cache
def _style() -> Html:
    return Html(join(Html(files(__package__).joinpath("style.css").read_text(encoding="utf-8"))))
