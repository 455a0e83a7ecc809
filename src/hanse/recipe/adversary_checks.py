"""Lying clients: what can be a lie, and where it can be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.errors import RecipeError
from hanse.recipe.adversary import COLLUSIVE

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe


def check_adversary(recipe: Recipe) -> None:
    """Liars are clients of a federation, and some are honest."""
    liars, clients = recipe.adversary.clients, recipe.partition.clients
    if liars and recipe.mode != "federated":
        problem = f'in mode "{recipe.mode}" nobody sends anything that could be a lie.'
        raise RecipeError("adversary.clients", problem, 'Leave it out, or use mode = "federated".')
    if any(client >= clients for client in liars):
        problem = f"there is no client {max(liars)}: the recipe has {clients}, counted from 0."
        raise RecipeError("adversary.clients", problem, f"Use indices from 0 to {clients - 1}.")
    if len(set(liars)) < len(liars):
        raise RecipeError("adversary.clients", f"{liars} names a client twice.", "Name each one once.")
    if len(recipe.adversary.absent) == clients:
        problem = 'with attack = "absent" every client of the recipe stays away.'
        raise RecipeError("adversary.clients", problem, "Leave one of them out.")


def check_collusion(recipe: Recipe) -> None:
    """An attack made of several updates needs several."""
    spec = recipe.adversary
    if spec.attack in COLLUSIVE and len(spec.clients) == 1 and spec.knowledge == "own":
        raise RecipeError(
            "adversary.knowledge",
            f'"{spec.attack}" is made of several updates, and one liar that knows only its own has one.',
            'Use knowledge = "all", or name more liars in adversary.clients.',
        )


def check_place(recipe: Recipe) -> None:
    """Liars that change what they say are clients of this machine."""
    spec = recipe.adversary
    if spec.clients and (spec.inflates or spec.rewrites) and recipe.runtime.elsewhere:
        raise RecipeError(
            "adversary.attack",
            f'"{spec.attack}" is made of what several clients say, known on this machine only.',
            'Use runtime.type = "local", or attack = "none" with adversary.trains.',
        )


def check_flipping(recipe: Recipe) -> None:
    """Flipped rewards lie within a range."""
    low, high = recipe.adversary.reward_range
    if low >= high:
        problem = f"[{low:g}, {high:g}] is no range: the first bound must be below the second."
        raise RecipeError("adversary.reward_range", problem, "Use [0.0, 1.0] for rewards of right or wrong.")
