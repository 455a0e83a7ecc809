"""What `hanse check` says of mode "reward-model"."""

from __future__ import annotations

from hanse.cli.estimate import Line, participants, policies
from hanse.cli.sizes import Sizes
from hanse.recipe.model import Recipe


def batch_of_reward_model(recipe: Recipe) -> list[str]:
    """Sentences from a step up to the whole run."""
    spec, slots = recipe.reward_model, participants(recipe)
    a_round = spec.local_steps * spec.pairs_per_step
    return [
        f"A step: {spec.pairs_per_step} pairs, 2 completions each, of at most {spec.max_tokens} tokens.",
        f"A round: {slots} of {recipe.partition.clients} clients × {spec.local_steps} steps × "
        f"{spec.pairs_per_step} = {slots * a_round:,} pairs.",
        f"The run: {recipe.rounds} rounds, {recipe.rounds * slots * a_round:,} pairs; every evaluation "
        f"adapts each client by {spec.adaptation} steps.",
    ]


def _trained(recipe: Recipe, sizes: Sizes) -> int:
    """Entries that train, the head's left out where they are many."""
    return 0 if recipe.reward_model.train == "head" else sizes.trainable


def _models(recipe: Recipe) -> tuple[int, str]:
    """How many models there are at most, and of what."""
    spec = recipe.reward_model
    if spec.method == "clustered":
        return spec.groups, f"{spec.groups} clusters"
    if spec.method == "oracle" and recipe.task.type == "synthetic-preferences":
        return len(recipe.task.clients), f"{len(recipe.task.clients)} groups"
    return 1, "1"


def memory_of_reward_model(recipe: Recipe, sizes: Sizes) -> list[Line]:
    trained, clients = _trained(recipe, sizes), recipe.partition.clients
    models, of = _models(recipe)
    return [
        *policies(recipe, sizes, 1, 1),
        Line("moments of the clients", clients * trained * 8, f"{clients} × {trained:,} × 8 B"),
        Line("servers' values", models * trained * 4, f"{of} × {trained:,} × 4 B"),
    ]


def disk_of_reward_model(recipe: Recipe, sizes: Sizes, policy: tuple[int, str], kept: int) -> list[Line]:
    trained, clients = _trained(recipe, sizes), recipe.partition.clients
    models, of = _models(recipe)
    a_round = clients * trained * 8 + models * trained * 4
    one, how = policy
    return [
        Line("one round", a_round, f"{clients} × {trained:,} × 8 B (two moments) + {of} × {trained:,} × 4 B"),
        Line("rounds/ at its peak", (kept + 1) * a_round, f"{kept} kept + 1 being written"),
        Line("policy/, last and best", 2 * models * one, f"2 × {of} × {how}"),
    ]


def traffic_of_reward_model(recipe: Recipe, sizes: Sizes) -> list[Line]:
    """A cluster's clients get every model and send one."""
    slots, trained = participants(recipe), _trained(recipe, sizes)
    models = recipe.reward_model.groups if recipe.reward_model.method == "clustered" else 1
    up = slots * trained * 4
    each = f"{slots} of {recipe.partition.clients} clients × {trained:,} × 4 B"
    return [
        Line("up, a round", up, each),
        Line("down, a round", models * up, each if models == 1 else f"{models} models × {each}"),
        Line("both, whole run", (1 + models) * up * recipe.rounds, f"{recipe.rounds} rounds"),
    ]
