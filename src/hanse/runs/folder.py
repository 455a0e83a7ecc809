"""The run folder: what a run leaves behind, and who may write it."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hanse.errors import RunError
from hanse.recipe.load import dump_recipe, load_recipe
from hanse.recipe.model import Recipe
from hanse.storage import find_damage, new_folder, remove_leftovers, write_checksums, write_text

_ROUND = re.compile(r"\d{6}")
KEPT_ROUNDS = 2
_UNBEGUN = {
    "recipe.toml",
    ".lock",
    "start.safetensors",
    "environment.json",
    "partition.json",
    "serve.json",
    "private",
}
"""What is written before the evaluation that a run begins with, and can all be made again."""


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
    def exchange_path(self) -> Path:
        """Samples of what nodes of a swarm sent one another."""
        return self.path / "exchange.jsonl"

    @property
    def accounts_path(self) -> Path:
        """Clients' privacy accounts, of which nothing is ever taken back, and their keys: not to be shown."""
        return self.path / "private"

    @property
    def control_path(self) -> Path:
        """The run folder of the same swarm without liars."""
        return self.path / "control"

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
        """None while the run has not ended. Raises RunError where summary.json is damaged."""
        if not self.summary_path.is_file():
            return None
        remedy = "Delete it; `hanse resume` then writes it again."
        return read_json(self.summary_path, remedy)

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

    def remove_unbegun(self) -> None:
        """Remove the folder of a run that failed before it began; one with anything to keep stays."""
        if {path.name for path in self.path.iterdir()} <= _UNBEGUN:
            shutil.rmtree(self.path, ignore_errors=True)

    # --- rounds ---------------------------------------------------------------------------------------

    @property
    def rounds_path(self) -> Path:
        return self.path / "rounds"

    def newest_round(self) -> Path | None:
        """The newest complete checkpoint, sound or not; half-written ones have another name."""
        complete = self._complete_rounds()
        return complete[-1] if complete else None

    def newest_sound_round(self, warn: Callable[[str], None]) -> Path | None:
        """The newest checkpoint whose files are as they were written; warns of newer ones.

        None where there is no checkpoint. Raises RunError where all are damaged.
        """
        damages: list[str] = []
        for folder in reversed(self._complete_rounds()):
            damage = find_damage(folder)
            if damage is None:
                for text in damages:
                    warn(f"{text} Round {int(folder.name)} is used instead.")
                return folder
            damages.append(f"{folder} is damaged: {damage}.")
        if not damages:
            return None
        raise RunError(f"{' '.join(damages)} No older round is kept: restore a copy, or start a new run.")

    def _complete_rounds(self) -> list[Path]:
        if not self.rounds_path.is_dir():
            return []
        return sorted(p for p in self.rounds_path.iterdir() if _ROUND.fullmatch(p.name))

    def drop_after(self, folder: Path) -> None:
        """Forget the checkpoints that are newer than the one in `folder`."""
        for path in self._complete_rounds():
            if path.name > folder.name:
                shutil.rmtree(path)

    def save_round(self, number: int, fill: Any) -> None:
        """Write a checkpoint atomically and drop all but the newest two."""
        self.rounds_path.mkdir(exist_ok=True)
        with new_folder(self.rounds_path / f"{number:06d}", replace=True) as temporary:
            fill(temporary)
            write_checksums(temporary)
        for old in self._complete_rounds()[:-KEPT_ROUNDS]:
            shutil.rmtree(old)

    # --- records --------------------------------------------------------------------------------------

    def append(self, path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append JSON lines; numbers that are not finite become null."""
        if not rows:
            return
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
        """The complete JSON lines of a file; a last line cut short by a crash is left out.

        Raises RunError where another line is damaged.
        """
        if not path.exists():
            return []
        complete = path.read_bytes().split(b"\n")[:-1]
        return [_document(line, f"{path}, line {i},") for i, line in enumerate(complete, 1)]

    def metrics(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows(self.metrics_path) if row.get("kind") == kind]


def read_json(path: Path, remedy: str = "Restore it from a copy.") -> dict[str, Any]:
    """A JSON object from a file of a run. Raises RunError where it is missing or damaged."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}.") from error
    return _document(text, str(path), remedy)


def _document(text: bytes, where: str, remedy: str = "Restore it from a copy.") -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{where} is damaged: {error}. {remedy}") from error
    if not isinstance(document, dict):
        raise RunError(f"{where} is damaged: it holds a {type(document).__name__}, not an object. {remedy}")
    return document


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
