"""One run of a study: which recipe, in which folder, and how far it is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hanse.errors import RecipeError
from hanse.recipe.load import dump_recipe
from hanse.recipe.model import Recipe
from hanse.runs.folder import RunFolder
from hanse.storage import new_folder, remove_leftovers, write_json, write_text

_ERROR = "error.json"
SUPERSEDED = "superseded"


@dataclass(frozen=True)
class Job:
    """A run to be had, in the folder `place` of the study's `root`. `trial` is None for a reported run."""

    root: Path
    place: str
    arm: str
    seed: int
    start: int | None
    recipe: Recipe = field(compare=False)
    trial: int | None = None

    @property
    def path(self) -> Path:
        return self.root / self.place

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.path)

    @property
    def title(self) -> str:
        trial = "" if self.trial is None else f"trial {self.trial}, "
        start = "" if self.start is None else f", start {self.start}"
        return f"{self.arm}: {trial}seed {self.seed}{start}"

    def matches(self) -> bool:
        """Whether the folder holds a run of this very recipe."""
        try:
            return self.folder.recipe_path.is_file() and self.folder.recipe() == self.recipe
        except RecipeError:
            return False

    def finished(self) -> bool:
        """Whether there is nothing left to do: ended as `resume` sees it, and of this recipe."""
        ended = self.folder.summary_path.is_file() and (self.path / "report.html").is_file()
        return ended and self.matches()

    def round(self) -> int | None:
        """The newest complete round."""
        newest = self.folder.newest_round()
        return None if newest is None else int(newest.name)

    def error(self) -> str | None:
        """Why the last attempt failed, if it did."""
        path = self.path / _ERROR
        if self.finished() or not path.is_file() or not self.matches():
            return None
        return read_error(path)

    def fail(self, message: str, code: int) -> None:
        write_json(self.path / _ERROR, {"error": message, "exit_code": code})

    def has_error(self) -> bool:
        return (self.path / _ERROR).is_file()

    def prepare(self) -> str | None:
        """Make the folder ready to be resumed; a run of another recipe is moved aside, and a note says so."""
        (self.path / _ERROR).unlink(missing_ok=True)
        note = None
        if self.path.exists() and not self.matches():
            aside = _aside(self.root / SUPERSEDED, self.place)
            aside.parent.mkdir(parents=True, exist_ok=True)
            self.path.rename(aside)
            note = f"{self.title}: the recipe has changed, so it is run again; the old run is now {aside}."
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.path.parent)
            with new_folder(self.path, replace=False) as temporary:
                write_text(RunFolder(temporary).recipe_path, dump_recipe(self.recipe))
        return note


def read_error(path: Path) -> str:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return str(document["error"])
    except (ValueError, KeyError, OSError):
        return "unknown (its error.json is damaged)"


def _aside(root: Path, place: str) -> Path:
    """The first free name for an old run."""
    target = root / place
    taken = target.parent.iterdir() if target.parent.is_dir() else ()
    pattern = re.compile(re.escape(target.name) + r"-(\d+)")
    numbers = [int(found[1]) for p in taken if (found := pattern.fullmatch(p.name))]
    return target.with_name(f"{target.name}-{max(numbers, default=0) + 1:03d}")
