"""Hanse: several owners train one reasoning model together by GRPO.

>>> import hanse
>>> run = hanse.train(hanse.load_recipe("recipes/quickstart.toml"))

Names are imported when first used, so that `import hanse` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hanse.grpo.advantages import group_advantages
    from hanse.grpo.learner import Learner
    from hanse.grpo.objectives import OBJECTIVES
    from hanse.grpo.step import grpo_step
    from hanse.policy.build import build_policy
    from hanse.policy.policy import Policy
    from hanse.policy.rollout import Group, Rollout
    from hanse.policy.sampler import Sampler, Sampling
    from hanse.recipe.load import load_recipe
    from hanse.recipe.model import GrpoSpec, Recipe
    from hanse.runs.api import Run, evaluate, resume, train
    from hanse.tasks.problem import Problem
    from hanse.tasks.scoring.scorer import Scorer

_HOMES = {
    "OBJECTIVES": "hanse.grpo.objectives",
    "Group": "hanse.policy.rollout",
    "GrpoSpec": "hanse.recipe.model",
    "Learner": "hanse.grpo.learner",
    "Policy": "hanse.policy.policy",
    "Problem": "hanse.tasks.problem",
    "Recipe": "hanse.recipe.model",
    "Rollout": "hanse.policy.rollout",
    "Run": "hanse.runs.api",
    "Sampler": "hanse.policy.sampler",
    "Sampling": "hanse.policy.sampler",
    "Scorer": "hanse.tasks.scoring.scorer",
    "build_policy": "hanse.policy.build",
    "evaluate": "hanse.runs.api",
    "group_advantages": "hanse.grpo.advantages",
    "grpo_step": "hanse.grpo.step",
    "load_recipe": "hanse.recipe.load",
    "resume": "hanse.runs.api",
    "train": "hanse.runs.api",
}

__all__ = [
    "OBJECTIVES",
    "Group",
    "GrpoSpec",
    "Learner",
    "Policy",
    "Problem",
    "Recipe",
    "Rollout",
    "Run",
    "Sampler",
    "Sampling",
    "Scorer",
    "__version__",
    "build_policy",
    "evaluate",
    "group_advantages",
    "grpo_step",
    "load_recipe",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'hanse' has no attribute {name!r}")
    return getattr(import_module(home), name)
