"""What `hanse check` says of the traffic of mode "reward-only"."""

from __future__ import annotations

from hanse.cli.estimate import Line
from hanse.recipe.model import Recipe

_TEXT = 4
"""Bytes of a token's text, roughly."""


def traffic_of_reward_only(recipe: Recipe) -> list[Line]:
    grpo, experts = recipe.grpo, recipe.reward_only.experts
    scored = grpo.local_steps * grpo.prompts_per_step * grpo.group_size * experts
    of = f"{grpo.local_steps} × {grpo.prompts_per_step} × {grpo.group_size} candidates × {experts} experts"
    down = scored * grpo.max_new_tokens * _TEXT
    how = f"{of} × {grpo.max_new_tokens} tokens × about {_TEXT} B, questions beside them"
    return [
        Line("up, a round", 5 * scored, f"{of} × 5 B"),
        Line("down, a round", down, how),
        Line("both, whole run", (5 * scored + down) * recipe.rounds, f"{recipe.rounds} rounds"),
    ]
