"""A trained reward model as a reward function, in this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hanse.errors import RecipeError, RunError
from hanse.randomness import generator
from hanse.recipe.reward_model import RewardModelSpec
from hanse.reward_model.folder import RECORD, load_reward_model
from hanse.reward_model.head import RewardModel
from hanse.reward_model.learner import PreferenceLearner
from hanse.tasks.preferences import read_pairs
from hanse.tasks.problem import Problem
from hanse.tasks.rewards.batch import RewardFunction, text_of

_FIELD = "rewards"
_MOST_STEPS, _MOST_PAIRS = 10_000, 4096


def build(
    path: str, pairs: str | None, steps: int | None, max_tokens: int | None, batch: int, device: str
) -> RewardFunction:
    """See `tasks.rewards.reward_model`. Raises RecipeError."""
    folder = Path(path).expanduser()
    if not (folder / RECORD).is_file():
        inside = sorted(folder.glob(f"*/{RECORD}")) if folder.is_dir() else []
        problem = f"{path} holds no reward model ({RECORD} is missing)."
        remedy = f"Choose one of those in it, as {inside[0].parent}." if inside else "Train one first."
        raise RecipeError(_FIELD, problem, remedy)
    try:
        model, settings = load_reward_model(folder, device)
        if pairs is not None:
            adapt(model, settings, read_pairs(pairs, _FIELD), steps)
    except RunError as error:
        raise RecipeError(_FIELD, str(error), "Restore the folder, or train the model again.") from error
    model.max_tokens = min(model.max_tokens, max_tokens or model.max_tokens)
    return scorer(model, batch)


def adapt(model: RewardModel, settings: dict[str, Any], pairs: Sequence[Problem], steps: int | None) -> None:
    """Local steps on somebody's own pairs, as clients take them: the same pairs give the same model.

    Raises RunError for `settings` that are none, or ask for more than `_MOST_STEPS` or `_MOST_PAIRS`.
    """
    spec = _read(settings)
    order = generator("reward-model", "adapt", len(pairs))
    learner, left = PreferenceLearner(model, spec), list[int]()

    def draw(count: int) -> tuple[list[Problem], list[int]]:
        while len(left) < count:
            left.extend(order.permutation(len(pairs)).tolist())
        chosen, left[:count] = left[:count], []
        return [pairs[i] for i in chosen], []

    learner.fit(draw, steps or spec.adaptation, learner.fresh_state())
    model.parameters.drop_gradients()


def _read(settings: dict[str, Any]) -> RewardModelSpec:
    """Settings that another party wrote."""
    try:
        spec = RewardModelSpec.model_validate(settings)
    except ValidationError as error:
        told = error.errors()[0]
        where = ".".join(map(str, told["loc"]))
        raise RunError(f"the model's settings are none: {where}: {told['msg']}") from error
    if spec.adaptation > _MOST_STEPS or spec.pairs_per_step > _MOST_PAIRS:
        raise RunError(
            f"the model's settings ask for {spec.adaptation} steps of {spec.pairs_per_step} pairs; at most "
            f"{_MOST_STEPS} of {_MOST_PAIRS} are done for a model that came from elsewhere."
        )
    return spec


def scorer(model: RewardModel, batch: int) -> RewardFunction:
    """The score of each completion. Several threads may ask: one at a time is answered."""
    lock = threading.Lock()

    def reward_model(prompts: Sequence[Any], completions: Sequence[Any], **_: Any) -> list[float | None]:
        rows = [model.encode(p, text_of(c)) for p, c in zip(prompts, completions, strict=True)]
        with lock:
            scores = model.score_all(rows, batch).tolist()
        return [score if abs(score) < float("inf") else None for score in scores]

    return reward_model
