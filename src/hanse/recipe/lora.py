"""Aggregation rules about LoRA factors: what they go with, and what they don't."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.errors import RecipeError
from hanse.recipe.federation import LORA_RULES

if TYPE_CHECKING:
    from hanse.recipe.federation import FederationSpec
    from hanse.recipe.model import Recipe

_OTHER_COORDINATES = ("rolora", "flora", "flexlora")
"""In the next round the same entries rest or stand for something else: what was not sent has no place."""
_NOT_LINEAR = ("flora", "flexlora", "fedex")
"""The result isn't base + a mean update, which is what server optimisers take steps along."""
_SERVER_OPTIMISERS = {
    "ffa": ("plain", "momentum", "nesterov", "adam", "average", "coherent"),
    "fedsa": ("plain", "momentum", "nesterov", "adam", "coherent"),
}
_LOCAL_METHODS = {"ffa": ("plain", "fedprox", "scaffold", "fednova", "fedadamw", "shared-moment")}
_LOCAL_ANYWHERE = ("plain", "fedprox", "fednova")


def _in_force(recipe: Recipe) -> FederationSpec | None:
    """The federation whose rule is about LoRA factors, if it is."""
    federation = recipe.federation_in_force
    return federation if federation.aggregation in LORA_RULES else None


def check_factors(recipe: Recipe) -> None:
    """There are factors to combine."""
    federation = _in_force(recipe)
    if federation is not None and recipe.policy.train == "full":
        raise RecipeError(
            "federation.aggregation",
            f'"{federation.aggregation}" combines LoRA factors, and policy.train = "full" has none.',
            'Set policy.train = "lora", or federation.aggregation = "mean".',
        )


def check_exchange(recipe: Recipe) -> None:
    """Factors travel in float32, and those that rest don't travel."""
    federation = _in_force(recipe)
    if federation is None:
        return
    if recipe.exchange_dtype != "float32":
        raise RecipeError(
            "federation.exchange_dtype",
            f'"{federation.aggregation}" needs float32: a cast would move factors that rest or were fitted.',
            'Use "auto"; federation.budget.bits makes LoRA factors smaller.',
        )
    if federation.exchanges_one_factor and federation.codec == "dense":
        raise RecipeError(
            "federation.codec",
            f'"dense" sends every value, also the factors that "{federation.aggregation}" keeps at home.',
            'Use "auto", "small" or "fast".',
        )


def check_left_over(recipe: Recipe) -> None:
    """What a budget leaves unsent can be added to something in the next round."""
    federation = _in_force(recipe)
    if federation is None or federation.aggregation not in _OTHER_COORDINATES:
        return
    budget = federation.budget
    if (budget.fraction is not None or budget.bits is not None) and budget.error_feedback != "off":
        raise RecipeError(
            "federation.budget.error_feedback",
            f'with "{federation.aggregation}" the next round trains other factors, to which unsent changes '
            "of this one cannot be added.",
            'Use error_feedback = "off", or leave the budget out.',
        )


def check_server(recipe: Recipe) -> None:
    """The server optimiser is defined for what the rule agrees on."""
    federation = _in_force(recipe)
    if federation is None:
        return
    rule, known = federation.aggregation, _SERVER_OPTIMISERS.get(federation.aggregation, ("plain",))
    if federation.optimizer not in known:
        raise RecipeError(
            "federation.server_optimizer",
            f'"{federation.optimizer}" is not defined for "{rule}", which replaces or alternates factors.',
            f"Use {' or '.join(map(repr, known))}.".replace("'", '"'),
        )
    if rule in _NOT_LINEAR and federation.server.lr != 1.0:
        raise RecipeError(
            "federation.server.lr",
            f'"{rule}" replaces the factors, so there is no step to scale by {federation.server.lr:g}.',
            "Use lr = 1.",
        )


def check_local(recipe: Recipe) -> None:
    """The local method's vectors mean the same at every client and in every round."""
    federation = _in_force(recipe)
    if federation is None:
        return
    known = _LOCAL_METHODS.get(federation.aggregation, _LOCAL_ANYWHERE)
    if federation.local not in known:
        raise RecipeError(
            "federation.local",
            f'"{federation.local}" averages directions of the factors over clients and rounds, which with '
            f'"{federation.aggregation}" are not comparable.',
            f"Use one of {', '.join(known)}.",
        )
