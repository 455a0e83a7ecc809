"""From a run folder to its report.html."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hanse.errors import RunError
from hanse.runs.folder import RunFolder, read_json
from hanse.runs.ledger import Ledger
from hanse.runs.report import render
from hanse.runs.report.data import ReportData
from hanse.storage import write_text


def write_report(path: Path) -> Path:
    """Render report.html from what the run folder holds, also for a run that has not ended.

    Raises RunError where the folder is not a run, or a file that the report needs is damaged.
    """
    _refuse_other(path)
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
        exchange=folder.rows(folder.exchange_path),
        control=RunFolder(folder.control_path).metrics("round"),
    )
    target = path / "report.html"
    write_text(target, render(data))
    return target


def _refuse_other(path: Path) -> None:
    """Raises RunError for what is neither a run nor a study, saying what would be."""
    if not path.is_dir():
        what = "is a file, not a folder." if path.exists() else "does not exist."
        raise RunError(f"{path} {what} Give the folder of a run (runs/NAME-001) or of a study (runs/NAME).")
    if (path / "study.toml").is_file():
        raise RunError(f"{path} is a study without results yet. Go on with `hanse study` and its file.")
    if not (path / "recipe.toml").is_file():
        raise RunError(
            f"{path} is no run (it has no recipe.toml) and no study (no study.json). Give the folder that "
            "`hanse train` or `hanse study` made."
        )


def _unfinished(folder: RunFolder) -> dict[str, Any]:
    """What the newest checkpoint knows."""
    newest = folder.newest_round()
    if newest is None:
        return {}
    summary = Ledger.load(newest).to_summary({})
    summary["evaluation"].pop("final")
    return summary | {"stopped": "not finished: continue with `hanse resume`"}


def _json(path: Path) -> dict[str, Any]:
    return read_json(path, "Delete it; the report then does without.") if path.is_file() else {}
