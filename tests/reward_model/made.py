"""Small reward models, clients and recipes for the tests."""

from __future__ import annotations

from typing import Any

from hanse.policy.build import build_policy
from hanse.recipe.load import load_recipe
from hanse.recipe.model import Recipe, TinyPolicy
from hanse.recipe.preferences import SyntheticPreferencesTask
from hanse.recipe.reward_model import RewardModelSpec
from hanse.reward_model.head import RewardModel
from hanse.reward_model.learner import PreferenceLearner
from hanse.runs.reward_model import RewardModelTraining
from hanse.tasks.build import recipe_task
from hanse.tasks.synthetic_preferences import build_synthetic

POLICY = {"hidden": 16, "layers": 1, "heads": 2, "intermediate": 32, "context": 64}
TASK = {"words": 8, "pairs": 12, "validation_pairs": 4, "held_out_pairs": 8, "noise": 0.0}


def make_task(**settings: Any):
    return build_synthetic(SyntheticPreferencesTask(type="synthetic-preferences", **(TASK | settings)))


def make_model(
    seed: int = 0, max_tokens: int = 32, *, train_backbone: bool = True, **policy: Any
) -> RewardModel:
    spec = TinyPolicy(**(POLICY | policy))
    made = build_policy(spec, seed, None, make_task().vocabulary)
    return RewardModel.on(made, max_tokens=max_tokens, train_backbone=train_backbone)


def make_learner(model: RewardModel | None = None, **settings: Any) -> PreferenceLearner:
    spec = RewardModelSpec(**({"local_steps": 2, "pairs_per_step": 4, "lr": 1e-2} | settings))
    return PreferenceLearner(model or make_model(), spec)


def make_recipe(clients: list[int], *overrides: str, **reward_model: Any) -> Recipe:
    document = {
        "name": "preferences",
        "mode": "reward-model",
        "rounds": 3,
        "policy": {"type": "tiny", **POLICY},
        "task": {"type": "synthetic-preferences", "clients": clients, **TASK},
        "partition": {"clients": sum(clients), "by": "column", "column": "client"},
        "federation": {"weighting": "uniform"},
        "reward_model": {
            "local_steps": 2,
            "pairs_per_step": 4,
            "lr": 1e-2,
            "warmup_rounds": 1,
            **reward_model,
        },
        "evaluation": {"level_column": "group", "every": 3},
    }
    return load_recipe(document, overrides)


def make_training(clients: list[int], *overrides: str, **reward_model: Any) -> RewardModelTraining:
    recipe = make_recipe(clients, *overrides, **reward_model)
    return RewardModelTraining(recipe, None, recipe_task(recipe))
