"""The run folder: what a run leaves behind, and who may write it."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hanse.errors import RunError
from hanse.recipe.load import dump_recipe, load_recipe
from hanse.recipe.model import Recipe
from hanse.storage import new_folder, remove_leftovers, write_text

_ROUND = re.compile(r"\d{6}")
KEPT_ROUNDS = 2


class RunFolder:
    """Paths and records of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, out: Path, recipe: Recipe) -> RunFolder:
        """Make `out/<name>-NNN` with the next free number and write the resolved recipe.

        Raises RunError where `out` cannot be written.
        """
        try:
            out.mkdir(parents=True, exist_ok=True)
            folder = cls(_claim(out, recipe.name))
            write_text(folder.recipe_path, dump_recipe(recipe))
        except OSError as error:
            raise RunError(f"--out: cannot write to {out}: {error}. Choose another folder.") from error
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Raises RunError where there is no run."""
        folder = cls(path)
        if not folder.recipe_path.is_file():
            raise RunError(
                f"{path} is not a run folder: it has no recipe.toml. Give a folder that train made."
            )
        return folder

    @property
    def recipe_path(self) -> Path:
        return self.path / "recipe.toml"

    @property
    def start_path(self) -> Path:
        return self.path / "start.safetensors"

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def completions_path(self) -> Path:
        return self.path / "completions.jsonl"

    @property
    def summary_path(self) -> Path:
        return self.path / "summary.json"

    @property
    def best_path(self) -> Path:
        return self.path / "best.safetensors"

    @property
    def policy_path(self) -> Path:
        return self.path / "policy"

    def recipe(self) -> Recipe:
        return load_recipe(self.recipe_path)

    def summary(self) -> dict[str, Any] | None:
        """None while the run has not ended."""
        if not self.summary_path.is_file():
            return None
        document: dict[str, Any] = json.loads(self.summary_path.read_text(encoding="utf-8"))
        return document

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process writes a run. Raises RunError where another one does."""
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RunError(
                    f"{self.path} is being written by another process; wait for it to end."
                ) from error
            remove_leftovers(self.path)
            remove_leftovers(self.rounds_path)
            yield

    # --- rounds ---------------------------------------------------------------------------------------

    @property
    def rounds_path(self) -> Path:
        return self.path / "rounds"

    def newest_round(self) -> Path | None:
        """The newest complete checkpoint; half-written ones have another name."""
        if not self.rounds_path.is_dir():
            return None
        complete = sorted(p for p in self.rounds_path.iterdir() if _ROUND.fullmatch(p.name))
        return complete[-1] if complete else None

    def save_round(self, number: int, fill: Any) -> None:
        """Write a checkpoint atomically and drop all but the newest two."""
        self.rounds_path.mkdir(exist_ok=True)
        with new_folder(self.rounds_path / f"{number:06d}", replace=True) as temporary:
            fill(temporary)
        complete = sorted(p for p in self.rounds_path.iterdir() if _ROUND.fullmatch(p.name))
        for old in complete[:-KEPT_ROUNDS]:
            shutil.rmtree(old)

    # --- records --------------------------------------------------------------------------------------

    def append(self, path: Path, rows: list[Mapping[str, Any]]) -> None:
        """Append JSON lines; numbers that are not finite become null."""
        with path.open("a", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(_finite(row), allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def size(self, path: Path) -> int:
        return path.stat().st_size if path.exists() else 0

    def cut(self, path: Path, size: int) -> None:
        """Forget what was appended after a checkpoint. Raises RunError where even less is there."""
        if self.size(path) < size:
            raise RunError(
                f"{path} is shorter than when the last round was saved; it was changed or damaged."
            )
        if path.exists():
            with path.open("r+b") as file:
                file.truncate(size)

    def rows(self, path: Path) -> list[dict[str, Any]]:
        """The complete JSON lines of a file; a last line cut short by a crash is left out."""
        if not path.exists():
            return []
        complete = path.read_text(encoding="utf-8").split("\n")[:-1]
        try:
            return [json.loads(line) for line in complete]
        except ValueError as error:
            raise RunError(f"{path} is damaged: {error}") from error

    def metrics(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows(self.metrics_path) if row.get("kind") == kind]


def _claim(out: Path, name: str) -> Path:
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"
    taken = [int(m[1]) for p in out.iterdir() if (m := re.fullmatch(re.escape(safe) + r"-(\d+)", p.name))]
    number = max(taken, default=0) + 1
    while True:
        path = out / f"{safe}-{number:03d}"
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value
