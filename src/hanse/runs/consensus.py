"""`hanse consensus build`: from a recipe's untrained policy to a file of nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanse import __version__
from hanse.errors import RecipeError, RunError
from hanse.grpo.evaluation import choose, levels_by_split
from hanse.grpo.shaping.consensus.build import Journal, Source, build
from hanse.grpo.shaping.consensus.store import load_nodes, save_nodes
from hanse.policy.sampler import Sampler
from hanse.recipe.model import Recipe, TinyPolicy
from hanse.recipe.shaping import ShapingSpec
from hanse.runs.progress import Progress, SilentProgress
from hanse.runs.start import warmed_start
from hanse.runtime.host import Host
from hanse.tasks.build import recipe_task
from hanse.tasks.problem import Problem, Task


@dataclass(frozen=True)
class Built:
    """A file: `nodes` in all, in `with_nodes` of `problems`, of which `solved` had a right rollout."""

    path: Path
    problems: int
    solved: int
    with_nodes: int
    nodes: int


def build_consensus(recipe: Recipe, out: Path | None = None, progress: Progress | None = None) -> Built:
    """Write the nodes of the recipe's problems, of all splits, to `out` or where the recipe looks for them.

    A build that was stopped goes on; a finished one is left as it is. Raises RecipeError where no place is
    named, RunError where another file is there or it cannot be written.
    """
    path, shown = _place(recipe, out), progress or SilentProgress()
    task = recipe_task(recipe)
    start = warmed_start(recipe, recipe.policy, task) if isinstance(recipe.policy, TinyPolicy) else None
    spec, problems = recipe.grpo.shaping.consensus.build, _problems(recipe, task)
    try:
        with closing(Host(_unshaped(recipe), start, [])) as host:
            made = _made(recipe, host.policy.sha256())
            if not _is_there(path, made):
                journal = Journal(path.with_name(f"{path.name}.part"), made)
                source = Source(Sampler(host.policy, host.sampling), host.scorer, recipe.seed)
                save_nodes(path, made, build(problems, source, spec, journal, shown.note))
                journal.path.unlink()
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error}. Give --out FILE.") from error
    finally:
        shown.stop()
    return _summary(path)


def _place(recipe: Recipe, out: Path | None) -> Path:
    named = recipe.grpo.shaping.consensus.nodes
    if out is None and named is None:
        problem = "it is not said where the nodes go."
        remedy = 'Give --out FILE, or set nodes = "nodes.json" in [grpo.shaping.consensus].'
        raise RecipeError("--out", problem, remedy)
    return Path(str(named)) if out is None else out


def _unshaped(recipe: Recipe) -> Recipe:
    """Without what needs the nodes that are to be built."""
    grpo = recipe.grpo.model_copy(update={"shaping": ShapingSpec()})
    evaluation = recipe.evaluation.model_copy(update={"nodes": None})
    return recipe.model_copy(update={"grpo": grpo, "evaluation": evaluation})


def _problems(recipe: Recipe, task: Task) -> list[Problem]:
    return list(_chosen(recipe, task))


def _chosen(recipe: Recipe, task: Task) -> Iterator[Problem]:
    """Of every split and level all, or as many as the recipe says, always the same ones."""
    count = recipe.grpo.shaping.consensus.build.problems_per_level
    for split, levels in levels_by_split(task, recipe.evaluation.level_column).items():
        for level, problems in levels.items():
            wanted = len(problems) if count is None else count
            yield from choose(problems, wanted, recipe.seed, "consensus", split, level)


def _made(recipe: Recipe, policy: str) -> dict[str, Any]:
    """All that decides the nodes."""
    grpo, build_spec = recipe.grpo, recipe.grpo.shaping.consensus.build
    return {
        "hanse": __version__,
        "policy": policy,
        "seed": recipe.seed,
        "task": recipe.task.model_dump(mode="json", exclude={"path", "held_out_path"}),
        "rewards": [reward.model_dump(mode="json", exclude={"path"}) for reward in recipe.rewards],
        "build": build_spec.model_dump(mode="json"),
        "sampling": {key: getattr(grpo, key) for key in ("temperature", "top_k", "top_p", "max_new_tokens")},
    }


def _is_there(path: Path, made: dict[str, Any]) -> bool:
    """Whether the file that would be made is there. Raises RunError for any other in its place."""
    if not path.exists():
        return False
    load_nodes(path, str(path))
    if json.loads(path.read_text(encoding="utf-8")).get("made") != json.loads(json.dumps(made)):
        raise RunError(
            f"{path} exists already and was made from another policy or in another way. Give another "
            "--out, or remove it."
        )
    return True


def _summary(path: Path) -> Built:
    found = load_nodes(path, str(path)).values()
    return Built(
        path=path,
        problems=len(found),
        solved=sum(one.right > 0 for one in found),
        with_nodes=sum(bool(one.nodes) for one in found),
        nodes=sum(len(one.nodes) for one in found),
    )
