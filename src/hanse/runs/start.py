"""The tiny policy's starting point: warmed up once, cached by what it depends on."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from hanse import __version__
from hanse.grpo.evaluation import problems_by_level
from hanse.policy.tiny import tiny_policy
from hanse.policy.warmup import warm_up
from hanse.recipe.model import Recipe, TinyPolicy
from hanse.runs.folder import RunFolder
from hanse.tasks.arithmetic import CHARSET
from hanse.tasks.problem import Task

_FORMAT = 1


def cache_folder() -> Path:
    """HANSE_CACHE, or ~/.cache/hanse."""
    return Path(os.environ.get("HANSE_CACHE") or Path.home() / ".cache" / "hanse")


def ensure_start(recipe: Recipe, task: Task, folder: RunFolder) -> Path | None:
    """The file with the tiny policy's warmed-up base in the run folder; None for other policies."""
    spec = recipe.policy
    if not isinstance(spec, TinyPolicy):
        return None
    if folder.start_path.exists():
        return folder.start_path
    cached = cache_folder() / f"tiny-{_key(recipe, spec)}.safetensors"
    if not cached.exists():
        cached.parent.mkdir(parents=True, exist_ok=True)
        _warm(recipe, spec, task, cached)
    temporary = folder.start_path.with_name(".start.tmp")
    shutil.copyfile(cached, temporary)
    temporary.replace(folder.start_path)
    return folder.start_path


def _key(recipe: Recipe, spec: TinyPolicy) -> str:
    """A hash of all that decides the warmed-up values, threads and library version included."""
    parts = [
        spec.model_dump(mode="json", exclude={"train", "lora", "dtype"}),
        recipe.task.model_dump(mode="json"),
        [recipe.seed, recipe.runtime.threads, torch.__version__, __version__, _FORMAT],
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _warm(recipe: Recipe, spec: TinyPolicy, task: Task, path: Path) -> None:
    torch.set_num_threads(recipe.runtime.threads)
    policy = tiny_policy(spec, CHARSET, recipe.seed)
    levels = list(problems_by_level(task.problems("train"), "level").values())
    warm_up(policy, levels, spec.warmup, recipe.seed)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    save_file({n: t.clone() for n, t in policy.parameters.views(policy.parameters.master).items()}, temporary)
    temporary.replace(path)
