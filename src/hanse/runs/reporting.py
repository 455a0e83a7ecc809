"""From a run folder to its report.html."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hanse.errors import RunError
from hanse.runs.folder import RunFolder
from hanse.runs.report import render
from hanse.runs.report.data import ReportData
from hanse.storage import write_text


def write_report(path: Path) -> Path:
    """Render report.html from what the run folder holds, also for a run that has not ended.

    Raises RunError where the folder is not a run.
    """
    folder = RunFolder.open(path)
    recipe = folder.recipe()
    data = ReportData(
        name=recipe.name,
        mode=recipe.mode,
        recipe_toml=folder.recipe_path.read_text(encoding="utf-8"),
        summary=folder.summary() or _unfinished(folder),
        rounds=folder.metrics("round"),
        steps=folder.metrics("step"),
        completions=folder.rows(folder.completions_path),
        environment=_json(path / "environment.json"),
        partition=_json(path / "partition.json").get("rows", []),
    )
    target = path / "report.html"
    write_text(target, render(data))
    return target


def _unfinished(folder: RunFolder) -> dict[str, Any]:
    """What the newest checkpoint knows."""
    newest = folder.newest_round()
    if newest is None:
        return {}
    ledger = _json(newest / "ledger.json")
    return {
        "rounds": ledger["round"],
        "seconds": ledger["seconds"],
        "seconds_warmup": ledger["seconds_warmup"],
        "evaluation": {"initial": ledger["initial"]},
        "bytes": {"up": ledger["bytes_up"], "down": ledger["bytes_down"]},
        "warnings": ledger["warnings"],
        "stopped": "not finished: continue with `hanse resume`",
    }


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}") from error
    return document
