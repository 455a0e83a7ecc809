"""What `hanse check` says of public steps."""

from __future__ import annotations

from hanse.cli.estimate import Line, participants
from hanse.federation.public.swap import POOLED
from hanse.recipe.model import Recipe

_ANSWER = 8
"""Bytes of an answer beside its tokens: its length, and in a pool its peer."""


def traffic_of_public(recipe: Recipe) -> list[Line]:
    """Answers on their way in a round with a public step, at most: as many as may be shown and pooled, all of
    full length. Tokens below 65,536 take two bytes, others four."""
    spec, clients, longest = recipe.federation.public, participants(recipe), recipe.grpo.max_new_tokens
    each = 4 * longest + _ANSWER
    shown = clients * spec.per_round * spec.most
    pooled = shown * min(POOLED, clients - 1)
    of = f"{clients} clients × {spec.per_round} problems × {spec.most} answers"
    answer = f"({longest} tokens × up to 4 B + {_ANSWER} B)"
    times = "" if spec.every == 1 else f"; every {spec.every} rounds"
    return [
        Line("answers up, a round", shown * each, f"at most {of} × {answer}{times}"),
        Line("answers down, a round", pooled * each, f"at most {min(POOLED, clients - 1)} times that{times}"),
    ]


def public_in_words(recipe: Recipe) -> list[str]:
    """The rollouts of public steps."""
    spec, clients = recipe.federation.public, participants(recipe)
    total, steps = spec.per_round * recipe.grpo.group_size, spec.steps(recipe.rounds)
    return [
        f"Public steps: {steps}, each {spec.per_round} problems × {recipe.grpo.group_size} × {clients} = "
        f"{total * clients:,} completions on top."
    ]
