"""Cross-checks of `runtime.late`: where a change made to an older base can be added to a newer one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hanse.errors import RecipeError

if TYPE_CHECKING:
    from hanse.recipe.federation import FederationSpec
    from hanse.recipe.model import Recipe

AGGREGATIONS = ("mean", "norm-equalised", "masked", "sign-consensus", "ffa")
"""Those that move the base by changes, entry by entry, in every round by the same rule."""
LOCAL = ("plain", "fedprox", "fednova")
"""Those without vectors that belong to a round."""
_REFUSED = tuple[str, str, str]


def check_lateness(recipe: Recipe) -> None:
    """Options of late uploads are read, and what they go with holds for uploads of other rounds too."""
    spec = recipe.runtime
    if not spec.weighs_late:
        for name in ("staleness", "stale_rounds"):
            if getattr(spec, name) != type(spec).model_fields[name].default:
                problem = f'is read with late = "weigh" only, and it is "{spec.late}".'
                raise RecipeError(f"runtime.{name}", problem, 'Leave it out, or set runtime.late = "weigh".')
        return
    if recipe.mode != "federated":
        return  # refused by `runtime_checks`
    found = (*_nobody(recipe), *_rules(recipe.federation))
    if found:
        raise RecipeError(*found[0])


def _nobody(recipe: Recipe) -> Iterator[_REFUSED]:
    if not recipe.runtime.elsewhere:
        problem = 'is for clients that may come late, and with type = "local" none does.'
        yield "runtime.late", problem, 'Leave it out, or set type = "flower" or "flower-simulation".'


def _rules(spec: FederationSpec) -> Iterator[_REFUSED]:
    """Rules that tie an upload to its round."""
    discard = 'or set runtime.late = "discard".'
    if spec.secure.enabled:
        problem = "is a sum over the clients of one round: a masked update that comes later opens nothing."
        yield "federation.secure.enabled", problem, f"Set it to false, {discard}"
    if spec.robust.on:
        yield (
            "federation.robust.rule",
            "promises something against so many liars among the uploads of one round; late ones would add "
            "to them, and honest late ones lie far from the others.",
            f'Use rule = "none", {discard}',
        )
    if spec.local not in LOCAL:
        yield (
            "federation.local",
            f'"{spec.local}" sends vectors that belong to the steps of a round, and the server has moved its '
            "own since.",
            f"Use {_either(LOCAL)}, {discard}",
        )
    if spec.aggregation not in AGGREGATIONS:
        yield (
            "federation.aggregation",
            f'"{spec.aggregation}" takes products of factors, or lets factors rest or stay at home; a change '
            "of older factors cannot be added to newer ones.",
            f"Use {_either(AGGREGATIONS)}, {discard}",
        )
    if spec.budget.fraction is not None and spec.budget.share != "own":
        yield (
            "federation.budget.share",
            f'"{spec.budget.share}" divides a budget of one round among its clients; a late upload would go '
            "over that of another.",
            f'Use share = "own", {discard}',
        )


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(f'"{name}"' for name in names)
