"""The page as a whole."""

from __future__ import annotations

from importlib.resources import files

from hanse.runs.report.clients import client_signals
from hanse.runs.report.completions import completions
from hanse.runs.report.cost import cost
from hanse.runs.report.data import ReportData
from hanse.runs.report.glossary import glossary
from hanse.runs.report.headline import header, result
from hanse.runs.report.health import health
from hanse.runs.report.markup import Html, Section, tag
from hanse.runs.report.privacy import privacy
from hanse.runs.report.setup import environment, partition, recipe
from hanse.runs.report.swarm import swarm
from hanse.runs.report.training import training

# Whatever a model wrote, nothing may run or be fetched: escaping is the first wall, this is the second.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render(data: ReportData) -> str:
    """A run as one self-contained HTML page without scripts: a pure function of `data`."""
    sections = [
        result(data),
        swarm(data),
        training(data),
        client_signals(data),
        privacy(data),
        health(data),
        cost(data),
        completions(data),
        partition(data),
        recipe(data),
        environment(data),
        glossary(data.mode),
    ]
    shown = [part for part in sections if part.body]
    title = f"{data.name} · Hanse report"
    body = tag("body", header(data), navigation(shown), tag("main", *map(written, shown)), FOOTER)
    return f"<!doctype html>\n{tag('html', head(title), body, lang='en')}\n"


def written(part: Section) -> Html:
    heading = tag("h2", part.title, id=f"{part.key}-title")
    return tag("section", heading, part.body, id=part.key, aria_labelledby=f"{part.key}-title")


def head(title: str) -> Html:
    style = (files("hanse.runs.report") / "style.css").read_text(encoding="utf-8")
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(style)),
    )


def navigation(shown: list[Section]) -> Html:
    links = [tag("li", tag("a", part.title, href=f"#{part.key}")) for part in shown]
    return tag("nav", tag("ul", *links), aria_label="Sections")


FOOTER = tag(
    "footer", tag("p", "Written by Hanse. This page is one file: it loads nothing and runs nothing.")
)
