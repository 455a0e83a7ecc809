"""From a study's folder to its study.html."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hanse.errors import RunError
from hanse.runs.folder import RunFolder
from hanse.runs.report.document import FOOTER, head, navigation, written
from hanse.runs.report.markup import tag
from hanse.runs.study.page.clients import clients
from hanse.runs.study.page.data import Arm, StudyData
from hanse.runs.study.page.details import environment, runs, tuning
from hanse.runs.study.page.headline import contrasts, header, levels, result
from hanse.runs.study.page.hostile import hostile
from hanse.runs.study.page.swarm import swarm
from hanse.runs.study.page.training import traffic, training
from hanse.storage import write_text


def write_page(root: Path) -> Path:
    """Render study.html from study.json and the run folders that it names; return its path.

    Raises RunError where study.json is missing or damaged.
    """
    target = root / "study.html"
    write_text(target, render(_read(root)))
    return target


def render(data: StudyData) -> str:
    """A study as one self-contained HTML page without scripts: a pure function of `data`."""
    sections = [
        swarm(data),
        hostile(data),
        result(data),
        contrasts(data),
        levels(data),
        training(data),
        traffic(data),
        clients(data),
        tuning(data),
        runs(data),
        environment(data),
    ]
    shown = [part for part in sections if part.body]
    title = f"{data.document['name']} · Hanse study"
    body = tag("body", header(data), navigation(shown), tag("main", *map(written, shown)), FOOTER)
    return f"<!doctype html>\n{tag('html', head(title), body, lang='en')}\n"


def _read(root: Path) -> StudyData:
    path = root / "study.json"
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        arms = [Arm(name, arm, _rounds(root, arm)) for name, arm in document["arms"].items()]
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{path} is damaged ({error}): run `hanse study` again.") from error
    return StudyData(document, arms)


def _rounds(root: Path, arm: dict[str, Any]) -> list[list[dict[str, Any]]]:
    return [RunFolder(root / run["folder"]).metrics("round") for run in arm["runs"]]
