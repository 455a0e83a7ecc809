"""What `hanse check` says of mode "reward-only"."""

from __future__ import annotations

from hanse.cli.estimate import Line, policies
from hanse.cli.sizes import Sizes
from hanse.recipe.model import Recipe

_TEXT = 4
"""Bytes of a token's text, roughly."""


def _models(recipe: Recipe) -> int:
    """How many clients have trained a policy of their own, which is kept."""
    return recipe.partition.clients if recipe.reward_only.own_steps else 0


def memory_of_reward_only(recipe: Recipe, sizes: Sizes) -> list[Line]:
    """The server's policy and the one that clients take turns in, or one in each worker."""
    trained, models = sizes.trainable, _models(recipe)
    hosts = 1 + min(recipe.runtime.workers, recipe.partition.clients)
    lines = [
        *policies(recipe, sizes, hosts, hosts),
        Line("the server's moments", trained * 8, f"{trained:,} × 8 B"),
    ]
    if models:
        lines.append(Line("clients' own models", models * trained * 4, f"{models} × {trained:,} × 4 B"))
    return lines


def disk_of_reward_only(recipe: Recipe, sizes: Sizes, policy: tuple[int, str], kept: int) -> list[Line]:
    trained, models = sizes.trainable, _models(recipe)
    a_round, how = trained * 12, f"{trained:,} × 12 B (values, two moments)"
    if models:
        a_round, how = a_round + models * trained * 4, f"{how} + {models} × {trained:,} × 4 B (own models)"
    one, how_one = policy
    return [
        Line("one round", a_round, how),
        Line("rounds/ at its peak", (kept + 1) * a_round, f"{kept} kept + 1 being written"),
        Line("policy/, last and best", 2 * one, f"2 × {how_one}"),
    ]


def traffic_of_reward_only(recipe: Recipe) -> list[Line]:
    grpo, experts = recipe.grpo, recipe.reward_only.experts
    scored = grpo.local_steps * grpo.prompts_per_step * grpo.group_size * experts
    of = f"{grpo.local_steps} × {grpo.prompts_per_step} × {grpo.group_size} candidates × {experts} experts"
    down = scored * grpo.max_new_tokens * _TEXT
    how = f"at most {of} × {grpo.max_new_tokens} tokens × about {_TEXT} B, questions beside them"
    quiz, how_quiz = _quiz(recipe)
    lines = [Line("up, a round", 5 * scored, f"{of} × 5 B"), Line("down, a round", down, how)]
    if quiz:
        lines.append(Line("quiz, once", quiz, how_quiz))
    return [*lines, Line("both, whole run", (5 * scored + down) * recipe.rounds + quiz, _whole(recipe, quiz))]


def _quiz(recipe: Recipe) -> tuple[int, str]:
    """Answers to the auxiliary questions, or pairs of answers and their scores; nothing where experts are
    drawn."""
    spec, clients = recipe.reward_only, recipe.partition.clients
    if spec.choice == "random":
        return 0, ""
    texts = 1 if spec.models is None else 2
    size = clients * spec.auxiliary * texts * recipe.grpo.max_new_tokens * _TEXT
    how = f"{clients} clients × {spec.auxiliary} answers × {recipe.grpo.max_new_tokens} tokens"
    return size, f"{how}{' × 2' if texts == 2 else ''} × about {_TEXT} B, questions beside them"


def _whole(recipe: Recipe, quiz: int) -> str:
    return f"{recipe.rounds} rounds{', and the quiz' if quiz else ''}"
