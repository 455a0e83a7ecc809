"""Metrics for other people's dashboards, on request: TensorBoard and trackio (extra `track`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from hanse.errors import RecipeError
from hanse.recipe.model import Recipe
from hanse.runs.folder import RunFolder
from hanse.tasks.optional import install


class Tracker(Protocol):
    def log(self, row: Mapping[str, Any]) -> None:
        """Take one round row of metrics.jsonl."""
        ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files in the run folder's `tensorboard/`."""

    def __init__(self, recipe: Recipe, folder: RunFolder) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder.path / "tensorboard"), purge_step=_next_round(folder))

    def log(self, row: Mapping[str, Any]) -> None:
        for name, value in numbers(row).items():
            self._writer.add_scalar(name, value, row["round"])

    def close(self) -> None:
        self._writer.close()


class Trackio:
    """A local trackio project named after the recipe."""

    def __init__(self, recipe: Recipe, folder: RunFolder) -> None:
        import trackio

        self._run = trackio.init(
            project=recipe.name, name=folder.path.name, config=recipe.model_dump(mode="json")
        )

    def log(self, row: Mapping[str, Any]) -> None:
        self._run.log(numbers(row), step=row["round"])

    def close(self) -> None:
        self._run.finish()


TRACKERS: dict[str, type[TensorBoard] | type[Trackio]] = {"tensorboard": TensorBoard, "trackio": Trackio}


def build_trackers(recipe: Recipe, folder: RunFolder) -> list[Tracker]:
    """The trackers that the recipe asks for. Raises RecipeError where a package is missing."""
    built: list[Tracker] = []
    for name in recipe.track:
        try:
            built.append(TRACKERS[name](recipe, folder))
        except ImportError as error:
            raise RecipeError(
                "track",
                f"{name} is not installed ({error}).",
                f"In the clone of hanse, run `{install('track')}`, or remove it.",
            ) from error
    return built


def numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """The numeric metrics of a row."""
    return {k: float(v) for k, v in row.items() if isinstance(v, int | float) and k != "round"}


def _next_round(folder: RunFolder) -> int:
    """What was logged from here on belongs to rounds that are run again."""
    newest = folder.newest_round()
    return 0 if newest is None else int(newest.name) + 1
