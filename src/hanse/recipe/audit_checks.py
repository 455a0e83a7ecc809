"""Audits: a server that owns problems, and sees what each update does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.errors import RecipeError

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe

FIELD = "federation.audit"


def check_audit(recipe: Recipe) -> None:
    """Problems from one source, single updates, one model."""
    spec, federation = recipe.federation.audit, recipe.federation
    if recipe.mode != "federated" or not spec.owns:
        return
    if spec.problems is not None and spec.path is not None:
        remedy = "Keep problems, or path."
        raise RecipeError(
            f"{FIELD}.path", "the server's problems come from one source, not from two.", remedy
        )
    if spec.problems is not None and recipe.partition.by == "own":
        raise RecipeError(
            f"{FIELD}.problems",
            'with partition.by = "own" the server has no training problems to keep some of.',
            f"Give the server a file of its own: {FIELD}.path.",
        )
    if spec.on and federation.secure.enabled:
        raise RecipeError(
            f"{FIELD}.problems",
            "an audit tries single updates, and with federation.secure the server sees their sum only.",
            "Leave one of the two out.",
        )
    if spec.on and (federation.lifts or federation.personal):
        raise RecipeError(
            f"{FIELD}.problems",
            f'with aggregation = "{federation.aggregation}" the values sent are not all of a policy.',
            'Use aggregation = "mean", "ffa", "rolora" or "flexlora".',
        )


def check_root(recipe: Recipe) -> None:
    """FLTrust trusts what the server's own problems say; who behaves on them must know some."""
    owns = recipe.federation.audit.owns
    if recipe.mode == "federated" and recipe.federation.robust.rule == "fltrust" and not owns:
        raise RecipeError(
            f"{FIELD}.problems",
            '"fltrust" trusts an update of the server\'s own problems, and it has none.',
            f"Set {FIELD}.problems = 128, or {FIELD}.path to a file of them.",
        )
    if recipe.adversary.knows_probe and not owns:
        problem = f"there are no probe problems to know: {FIELD} names none."
        raise RecipeError("adversary.knows_probe", problem, f"Set {FIELD}.problems, or leave it out.")
