"""Who of a host's clients keeps its problems private, and on which terms."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from hanse.federation.private_round import Private
from hanse.grpo.learner import Learner
from hanse.policy.policy import Policy
from hanse.privacy.account import Account, Terms
from hanse.privacy.learner import PrivateLearner
from hanse.privacy.step import Asked
from hanse.recipe.model import GrpoSpec, Recipe
from hanse.tasks.problem import Problem


def learner_of(recipe: Recipe, policy: Policy, spec: GrpoSpec) -> Learner:
    """The learner that all clients of a host share."""
    kind = PrivateLearner if recipe.privacy.enabled else Learner
    return kind(policy, spec, recipe.rounds * spec.local_steps)


def private_of(
    recipe: Recipe,
    spec: GrpoSpec,
    problems: Sequence[Problem],
    client: int,
    folder: Path | None,
    *,
    apart: bool,
) -> Private | None:
    """A client's account and terms; None without `[privacy]`. `spec`: of its steps; `folder`: where accounts
    are kept, None: in memory, for hosts that are not resumed; `apart`: score group by group.

    Raises RecipeError for problems too few, or a budget too small, and RunError for a damaged account.
    """
    privacy = recipe.privacy
    if not privacy.enabled:
        return None
    steps, whose = recipe.rounds * spec.local_steps, f"client {client}"
    binding = _binding(recipe, spec, problems)
    terms = Terms.of(privacy, len(problems), spec.prompts_per_step, steps, whose, binding)
    if folder is None:
        account = Account.in_memory(terms, recipe.seed, client)
    else:
        account = Account.open(folder, terms, recipe.seed, client)
    return Private(account, Asked(privacy, account.terms, spec.prompts_per_step, spec.group_size, apart))


def _binding(recipe: Recipe, spec: GrpoSpec, problems: Sequence[Problem]) -> str:
    """A digest of what a step's sum depends on, beside parameters: problems and how they are learnt from."""
    digest = hashlib.sha256()
    parts = (spec, recipe.privacy, recipe.policy, recipe.scoring, recipe.federation.calibration)
    for part in (*parts, *recipe.rewards):
        digest.update(part.model_dump_json().encode())
    for problem in problems:
        own = [problem.id, problem.prompt, problem.answer, problem.metadata]
        digest.update(json.dumps(own, default=str).encode())
    return digest.hexdigest()
