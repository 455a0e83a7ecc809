"""Cross-checks of `[federation.secure]`: no rule of single updates where the server sees none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hanse.errors import RecipeError
from hanse.recipe.federation import ScreeningSpec
from hanse.recipe.secure import FEWEST_CLIENTS, adam_bound

if TYPE_CHECKING:
    from hanse.recipe.federation import FederationSpec
    from hanse.recipe.model import Recipe

AGGREGATIONS = ("mean", "ffa", "rolora")
"""Those that are means of updates, entry by entry."""
LOCAL = ("plain", "fedprox")
DIVIDED = 0.65
"""From this share t / n of n holders on, the t (t - 1) shares of mask keys that lay a client bare are more
than the (n - 1) (n - t) that the others give away to a server that tells each of them another story."""
_REFUSED = tuple[str, str, str]


def check_secure(recipe: Recipe) -> None:
    """Only sums leave, of three clients or more."""
    spec = recipe.federation
    if recipe.mode != "federated" or not spec.secure.enabled:
        return
    found = (*_exchange(spec), *_rules(spec), *_clients(recipe), *_numbers(recipe))
    if found:
        raise RecipeError(*found[0])


def notes(recipe: Recipe) -> Iterator[str]:
    """Advice: what a rejected sum means for a run, and what masks cost."""
    if recipe.mode != "federated" or not recipe.federation.secure.enabled:
        return
    if recipe.runtime.patience == 1:
        yield (
            "runtime.patience = 1 with federation.secure: one rejected sum ends the run, and one client can "
            "spoil a sum; patience = 3 tries again with new keys."
        )
    if recipe.federation.secure.threshold < DIVIDED:
        yield (
            f"federation.secure.threshold below {DIVIDED:g}: a server that tells clients different stories "
            "of who dropped out may take the masks off one update. The default leaves it too few shares."
        )
    if recipe.exchange_dtype == "bfloat16":
        yield (
            "federation.secure sends 4 bytes or more of every entry, where bfloat16 patches send little: "
            'masked updates are noise. policy.train = "lora" has fewer entries.'
        )


def _exchange(spec: FederationSpec) -> Iterator[_REFUSED]:
    """A masked vector has all entries, whole numbers each."""
    if spec.budget.fraction is not None or spec.budget.bits is not None:
        yield (
            "federation.budget",
            "which entries a client sends, or the scale of its blocks, would tell of its update; masked "
            "ones are sent whole.",
            "Leave federation.budget out, or federation.secure; federation.secure.bits sets the precision.",
        )
    if spec.codec in ("small", "fast"):
        yield (
            "federation.codec",
            f'"{spec.codec}" makes patches of uploads, and nothing makes masked updates smaller.',
            'Use "auto": what the server sends is still a patch where that is smaller. Or "dense".',
        )


def _rules(spec: FederationSpec) -> Iterator[_REFUSED]:
    """The server has signals and a sum, nothing else of a client."""
    if spec.aggregation not in AGGREGATIONS:
        yield (
            "federation.aggregation",
            f'"{spec.aggregation}" compares or takes apart single updates; the server sees their sum only.',
            f"Use {_either(AGGREGATIONS)}.",
        )
    if spec.weighting == "coherence":
        yield (
            "federation.weighting",
            '"coherence" divides by the norm of each update, which the server does not see.',
            'Use "uniform", "samples" or "reward-std": signals travel in clear.',
        )
    if spec.local not in LOCAL:
        yield (
            "federation.local",
            f'"{spec.local}" sends or scales vectors of single clients beside their updates.',
            f"Use {_either(LOCAL)}.",
        )
    if spec.screening.max_norm not in (None, ScreeningSpec().max_norm):
        yield (
            "federation.screening.max_norm",
            "the norms of single updates are hidden from the server.",
            "Leave it out: federation.secure.range bounds every entry of every update instead.",
        )


def _clients(recipe: Recipe) -> Iterator[_REFUSED]:
    """Enough of them to hide among, none of whom the studies' attacks could rewrite."""
    federation, clients = recipe.federation, recipe.partition.clients
    taking_part = max(1, round(federation.participation * clients))
    if taking_part < FEWEST_CLIENTS:
        drawn = federation.participation < 1
        yield (
            "federation.participation" if drawn and clients >= FEWEST_CLIENTS else "partition.clients",
            f"{taking_part} clients take part in a round; fewer than {FEWEST_CLIENTS} hide nobody.",
            f"Use at least {FEWEST_CLIENTS} clients a round, or set federation.secure.enabled = false.",
        )
    fixed = federation.weights.fixed if federation.weighting == "fixed" else None
    if fixed is not None and sum(weight > 0 for weight in fixed) < FEWEST_CLIENTS:
        yield (
            "federation.weights.fixed",
            f"{fixed} gives fewer than {FEWEST_CLIENTS} clients any weight, and the sum is theirs alone.",
            f"Give at least {FEWEST_CLIENTS} clients a weight above 0.",
        )
    if recipe.adversary.clients:
        yield (
            "adversary.clients",
            "the attacks of studies rewrite uploads, which here are masked before they leave.",
            "Leave [adversary] out, or set federation.secure.enabled = false.",
        )


def _numbers(recipe: Recipe) -> Iterator[_REFUSED]:
    """Sums fit their modulus, and the range has a bound to start from."""
    secure, betas = recipe.federation.secure, recipe.grpo.betas
    if secure.range is None and math.isinf(adam_bound(betas)):
        yield (
            "federation.secure.range",
            f"with grpo.betas = [{betas[0]:g}, {betas[1]:g}] a step of AdamW has no bound to take.",
            "Give the largest change of a weight in a round, as range = 0.01; larger ones are cut to it.",
        )
    if recipe.partition.clients * 2 ** (secure.bits - 1) >= 2**63:
        yield (
            "federation.secure.bits",
            f"sums over {recipe.partition.clients} clients of {secure.bits} bits overflow 64 bits.",
            "Use bits = 24.",
        )


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(f'"{name}"' for name in names)
