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
from hanse.storage import sha256
from hanse.tasks.problem import Problem


def learner_of(recipe: Recipe, policy: Policy, spec: GrpoSpec) -> Learner:
    """The learner that all clients of a host share."""
    kind = PrivateLearner if recipe.privacy.enabled else Learner
    public = recipe.federation_in_force.public.steps(recipe.rounds)
    return kind(policy, spec, recipe.rounds * spec.local_steps + public)


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
    asked = Asked(privacy, account.terms, spec.prompts_per_step, spec.group_size, apart)
    return Private(account, asked, setting_of(recipe))


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


_FREE = {"name", "track", "evaluation", "runtime"}
"""Of a recipe, what no step depends on; but threads decide how sums round."""


def setting_of(recipe: Recipe) -> str:
    """A digest of what else decides a client's steps: the rest of the recipe, and what the files say that
    rewards are made of. It may change, as an account outlives a run; then noise is fresh and is paid for."""
    document = [recipe.model_dump(mode="json", exclude=_FREE), recipe.runtime.threads]
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode())
    places = [reward.path.rpartition(":")[0] or reward.path for reward in recipe.rewards if reward.path]
    nodes = recipe.grpo.shaping.consensus.nodes
    for place in [*places, *([nodes] if nodes is not None else [])]:
        path = Path(place).expanduser()
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            digest.update(sha256(file).encode() if file.is_file() else b"-")
    return digest.hexdigest()
