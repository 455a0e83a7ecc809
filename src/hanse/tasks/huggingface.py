"""Problems from a data set of the Hugging Face hub, or from a folder in its layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hanse.errors import RecipeError
from hanse.recipe.tasks import HuggingFaceTask
from hanse.tasks.listed import ListedTask
from hanse.tasks.optional import require
from hanse.tasks.rows import Row, task_from_rows


def build_huggingface(spec: HuggingFaceTask) -> ListedTask:
    """`spec.path` is a hub id, a folder of data files, or a folder written by `save_to_disk`.

    No code of the data set is run. Raises RecipeError where it cannot be loaded.
    """
    held_out = None
    if spec.held_out_split is not None:
        held_out = _rows(spec, spec.held_out_split, "task.held_out_split")
    field = "task.held_out_fraction" if held_out is None else "task.held_out_split"
    return task_from_rows(spec, _rows(spec, spec.split, "task.split"), held_out, field)


def _rows(spec: HuggingFaceTask, split: str, field: str) -> Iterator[tuple[str, Row]]:
    for number, row in enumerate(_load(spec, split, field), 1):
        yield f"{spec.path} [{split}], row {number}", row


def _load(spec: HuggingFaceTask, split: str, field: str) -> Any:
    datasets = require("datasets", "data", "task.type")
    folder = Path(spec.path).expanduser()
    try:
        if (folder / "dataset_dict.json").exists() or (folder / "state.json").exists():
            return _saved(datasets.load_from_disk(str(folder)), split, field)
        path = str(folder) if folder.is_dir() else spec.path
        return datasets.load_dataset(path, name=spec.config, split=split)
    except RecipeError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        what = f"{spec.path!r} (config {spec.config!r}, split {split!r})"
        raise RecipeError(
            field if folder.is_dir() else "task.path",
            f"the data set {what} cannot be loaded: {reason}.",
            "Check path, config and split, or download it and give the local folder.",
        ) from error


def _saved(saved: Any, split: str, field: str) -> Any:
    """One split of what `save_to_disk` wrote: a dictionary of splits, or a single one called "train"."""
    parts = saved if isinstance(saved, dict) else {"train": saved}
    if split not in parts:
        problem = f"the saved data set has no split {split!r}; it has {', '.join(map(repr, parts))}."
        raise RecipeError(field, problem, "Name one of them.")
    return parts[split]
