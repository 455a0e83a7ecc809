"""The control of a swarm with liars: the same swarm, from the same seed, in which nobody lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hanse.errors import RunError
from hanse.recipe.load import dump_recipe
from hanse.recipe.model import Recipe
from hanse.runs.folder import RunFolder
from hanse.runs.progress import Progress, SilentProgress
from hanse.runs.report.formats import number
from hanse.runs.report.reading import part
from hanse.storage import write_text

_SUFFIX = "-control"
_LONGEST_NAME = 100


def control_recipe(recipe: Recipe) -> Recipe:
    """What the control trains: the attack stays named, so that its success is measured by the same words."""
    honest = recipe.adversary.model_copy(update={"nodes": [], "control": False})
    name = recipe.name[: _LONGEST_NAME - len(_SUFFIX)] + _SUFFIX
    return recipe.model_copy(update={"name": name, "adversary": honest})


def prepare_control(folder: RunFolder, recipe: Recipe) -> RunFolder:
    """The control's run folder within `folder`, ready to be begun or to go on.

    Raises RunError where it cannot be written.
    """
    control = RunFolder(folder.control_path)
    text = dump_recipe(control_recipe(recipe))
    try:
        control.path.mkdir(exist_ok=True)
        if not control.recipe_path.is_file() or control.recipe_path.read_text(encoding="utf-8") != text:
            write_text(control.recipe_path, text)
    except OSError as error:
        raise RunError(f"{control.path} cannot be written: {error}. Make room or mend it.") from error
    return control


def add_control(folder: RunFolder, summary: dict[str, Any]) -> None:
    """Put what the control's summary says of its swarm beside the run's own, where there is a control."""
    told = RunFolder(folder.control_path).summary()
    if told is not None and "swarm" in summary:
        summary["swarm"] = {**part(summary, "swarm"), "control": dict(part(told, "swarm"))}


class ControlProgress(SilentProgress):
    """Tells a control's rounds as notes: the run itself is still to come."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._rounds = 0

    def started(self, name: str, rounds: int, clients: Sequence[str], levels: Sequence[str]) -> None:
        self._rounds = rounds
        self._progress.note("First the control: the same swarm, in which nobody lies …")

    def warning(self, text: str) -> None:
        self._progress.warning(f"control: {text}")

    def round_done(self, row: Mapping[str, Any]) -> None:
        reward = number(row.get("swarm/honest_reward"))
        self._progress.note(
            f"Control, in which nobody lies: round {row.get('round')}/{self._rounds}  reward {reward}"
        )

    def finished(self, summary: Mapping[str, Any], folder: Path) -> None:
        self._progress.note("The control is done; now the run with liars …")
