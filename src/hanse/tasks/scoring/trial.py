"""Reward functions imported and nothing more: what `hanse check` can say of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict

from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.tasks.rewards.resolve import check
from hanse.tasks.scoring.pool import Pool
from hanse.tasks.scoring.scorer import check_code, in_process, source_of


def try_functions(rewards: Sequence[RewardSpec], spec: ScoringSpec) -> None:
    """Resolve every function in a child process, as a `Scorer` does at its start.

    Trusted ones, which a `Scorer` imports in its own process, are only looked for as files. Raises
    RecipeError for the first function that cannot be found or built.
    """
    sources = [source_of(reward, i) for i, reward in enumerate(rewards)]
    for source, reward in zip(sources, rewards, strict=True):
        check(source)
        check_code(source, reward.trusted, spec)
    tried = [asdict(s) for s, reward in zip(sources, rewards, strict=True) if not in_process(reward)]
    if tried:
        with closing(Pool(tried, spec)) as pool:
            pool.start()
