"""The tiny policy's starting point: warmed up once, cached by what it depends on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from hanse import __version__
from hanse.errors import RunError
from hanse.grpo.evaluation import problems_by_level
from hanse.policy.teaching import teach
from hanse.policy.tiny import tiny_policy
from hanse.policy.warmup import warm_up
from hanse.recipe.model import Recipe, TinyPolicy
from hanse.runs.folder import RunFolder
from hanse.storage import new_file, sha256
from hanse.tasks.arithmetic import VOCABULARY
from hanse.tasks.problem import Split, Task

_FORMAT = 1


def cache_folder() -> Path:
    """HANSE_CACHE, or ~/.cache/hanse."""
    return Path(os.environ.get("HANSE_CACHE") or Path.home() / ".cache" / "hanse")


def ensure_start(recipe: Recipe, task: Task, folder: RunFolder, expected: str | None = None) -> Path | None:
    """The file with the tiny policy's warmed-up base in the run folder; None for other policies.

    `expected` is the SHA-256 of the file that the run began with. A missing or damaged one is made again.
    Raises RunError where that gives other values.
    """
    spec = recipe.policy
    if not isinstance(spec, TinyPolicy):
        return None
    path = folder.start_path
    if _sound(path, expected):
        return path
    cached = warmed_start(recipe, spec, task, expected)
    with new_file(path) as temporary:
        shutil.copyfile(cached, temporary)
    if not _sound(path, expected):
        raise RunError(
            f"{path} was missing or damaged, and warming the policy up again gave other values, as another "
            "version of torch does. Restore that file from a copy, or start a new run."
        )
    return path


def warmed_start(recipe: Recipe, spec: TinyPolicy, task: Task, expected: str | None = None) -> Path:
    """The file in the cache with the warmed-up base of a tiny policy, made where it is missing."""
    cached = cache_folder() / f"tiny-{_key(recipe, spec, task)}.safetensors"
    if not _sound(cached, expected):
        cached.parent.mkdir(parents=True, exist_ok=True)
        _warm(recipe, spec, task, cached)
    return cached


def _sound(path: Path, expected: str | None) -> bool:
    """Whether the file is the expected one, or where nothing is known of it, can be read."""
    if not path.is_file():
        return False
    if expected is not None:
        return sha256(path) == expected
    try:
        load_file(path)
    except (OSError, SafetensorError):
        return False
    return True


def _key(recipe: Recipe, spec: TinyPolicy, task: Task) -> str:
    """A hash of all that decides the warmed-up values, threads and library version included."""
    parts: list[Any] = [
        spec.model_dump(mode="json", exclude={"train", "lora", "dtype", "seed"}),
        recipe.task.model_dump(mode="json"),
        [recipe.start_seed, recipe.runtime.threads, torch.__version__, __version__, _FORMAT],
    ]
    if task.lessons is not None:
        parts.append(task.lessons.digest)
    elif recipe.privacy.enabled:
        parts.append("validation")
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _warm(recipe: Recipe, spec: TinyPolicy, task: Task, path: Path) -> None:
    torch.set_num_threads(recipe.runtime.threads)
    policy = tiny_policy(spec, task.vocabulary or VOCABULARY, recipe.start_seed)
    if task.lessons is not None:
        teach(policy, task.lessons, recipe.start_seed)
    else:
        # The starting policy is public, so under privacy no training problem may have a part in it.
        split: Split = "validation" if recipe.privacy.enabled else "train"
        levels = list(problems_by_level(task.problems(split), "level").values())
        warm_up(policy, levels, spec.warmup, recipe.start_seed)
    views = policy.parameters.views(policy.parameters.master)
    with new_file(path) as temporary:
        save_file({n: t.clone() for n, t in views.items()}, temporary)
