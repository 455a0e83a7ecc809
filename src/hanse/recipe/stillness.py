"""Whether a client whose groups all had equal rewards can have moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe

_STILL = ("plain", "fedprox")
"""Local methods that move by the policy gradient alone, or back to where the round began."""


def still_without_signal(recipe: Recipe) -> bool:
    """Whether an update without informative groups is none: advantages are 0 then and the step is skipped.

    Not with a KL penalty, which has a gradient of its own; nor where something of earlier rounds is sent:
    residuals below the grid of the exchange dtype, or entries that a budget held back; nor where factors
    begin anew each round, or public problems teach too; nor under privacy, where noise moves everybody.
    """
    spec = recipe.federation
    alone = recipe.grpo.beta == 0 and spec.local in _STILL and not spec.lifts
    sent = spec.budget.fraction is not None or spec.budget.bits is not None
    cast = recipe.exchange_dtype != "float32" and spec.residual == "keep"
    alone &= not recipe.privacy.enabled and not spec.public.on
    return alone and not sent and not cast and spec.aggregation != "rolora"
