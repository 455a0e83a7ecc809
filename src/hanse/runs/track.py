"""Metrics for other people's dashboards, on request: TensorBoard and trackio (extra `track`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from hanse.errors import RecipeError
from hanse.recipe.model import Recipe


class Tracker(Protocol):
    def log(self, row: Mapping[str, Any]) -> None:
        """Take one round row of metrics.jsonl."""
        ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run folder's `tensorboard/`."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=0)

    def log(self, row: Mapping[str, Any]) -> None:
        for name, value in numbers(row).items():
            self._writer.add_scalar(name, value, row["round"])

    def close(self) -> None:
        self._writer.close()


class Trackio:
    """A local trackio project named after the recipe."""

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        import trackio

        self._run = trackio.init(project=recipe.name, name=folder.name, config=recipe.model_dump(mode="json"))

    def log(self, row: Mapping[str, Any]) -> None:
        self._run.log(numbers(row), step=row["round"])

    def close(self) -> None:
        self._run.finish()


TRACKERS: dict[str, type[TensorBoard] | type[Trackio]] = {"tensorboard": TensorBoard, "trackio": Trackio}


def build_trackers(recipe: Recipe, folder: Path) -> list[Tracker]:
    """The trackers that the recipe asks for. Raises RecipeError where a package is missing."""
    built: list[Tracker] = []
    for name in recipe.track:
        try:
            built.append(TRACKERS[name](recipe, folder))
        except ImportError as error:
            raise RecipeError(
                "track",
                f"{name} is not installed ({error}).",
                'Run `pip install "hanse[track]"`, or remove it.',
            ) from error
    return built


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The numeric metrics of a row."""
    return {k: float(v) for k, v in row.items() if isinstance(v, int | float) and k != "round"}
