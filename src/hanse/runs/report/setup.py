"""What the run was made of: who owned what, the recipe, the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hanse.runs.report.data import ReportData, Row
from hanse.runs.report.formats import known, whole
from hanse.runs.report.markup import Html, Section, escape, folded, section, tag
from hanse.runs.report.reading import name_level
from hanse.runs.report.tables import table


def partition(data: ReportData) -> Section:
    rows = [row for row in data.partition if row.get("client") is not None]
    if rows and all(known(row.get("problems")) is None for row in rows):
        who = ", ".join(str(row["client"]) for row in rows)
        text = f"Each client brought its own problems and kept them: {who}."
        return section("partition", "Who owned what", tag("p", text))
    names = list(dict.fromkeys(name for row in rows for name in _counts(row)))
    body = [
        [str(row["client"]), whole(row.get("problems")), *(_cell(_counts(row), name) for name in names)]
        for row in rows
    ]
    heads = ["client", "problems", *(name_level(name) for name in names)]
    caption = "Training problems by owner; shading is the share of the owner's problems."
    return section("partition", "Who owned what", table(caption, heads, body))


def _counts(row: Row) -> Mapping[str, Any]:
    nested = row.get("counts")
    if isinstance(nested, Mapping):
        return {str(name): count for name, count in nested.items()}
    return {str(name): count for name, count in row.items() if name not in ("client", "problems", "counts")}


def _cell(counts: Mapping[str, Any], name: str) -> Html:
    count = known(counts.get(name))
    total = sum(value for v in counts.values() if (value := known(v)) is not None)
    portion = 100 * count / total if count and total > 0 else 0.0
    return tag("span", whole(count or 0), class_="heat", style=f"--share:{portion:.0f}%")


def recipe(data: ReportData) -> Section:
    text = data.recipe_toml.strip()
    shown = folded("recipe.toml, resolved", tag("pre", text, class_="recipe")) if text else None
    return section("recipe", "Recipe", shown)


def environment(data: ReportData) -> Section:
    rows = [[str(name), escape(str(value))] for name, value in data.environment.items()]
    hashes = data.summary.get("policy_sha256")
    named = hashes if isinstance(hashes, Mapping) else {"": hashes} if hashes else {}
    rows += [[f"policy SHA-256 {name}".strip(), tag("code", str(value))] for name, value in named.items()]
    return section("environment", "Environment", table("What it ran on", ["part", "version"], rows, texts=2))
