"""Cross-checks of `[federation.robust]`: promises that few clients cannot give, rules that cannot work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hanse.errors import RecipeError
from hanse.recipe.federation import LORA_RULES, ScreeningSpec
from hanse.recipe.robust import COORDINATE_RULES, REMEMBERING_RULES, WEIGHTED_RULES, RobustSpec

if TYPE_CHECKING:
    from hanse.recipe.federation import FederationSpec
    from hanse.recipe.model import Recipe

_ONE_FACTOR = ("ffa", "rolora")
"""LoRA rules under which one factor is the same at every client, so that entries of the other compare."""
_LASTING = ("mean", "ffa")
"""Under which last round's update means the same in this one."""
_LINEAR = ("mean", "ffa", "rolora", "flora", "flexlora", "fedex")
_LOCAL = ("plain", "fedprox")
_READERS: dict[str, tuple[str, ...]] = {
    "keep": ("multi-krum",),
    "radius": ("centred-clipping", "norm-clipping"),
    "iterations": ("geometric-median", "centred-clipping"),
    "removed": ("dnc",),
}
_REFUSED = tuple[str, str, str]


def check_robust(recipe: Recipe) -> None:
    """Enough clients for the promise, and a rule that sees what it has to."""
    if recipe.mode != "federated" or not recipe.federation.robust.on:
        return
    found = (*_enough(recipe), *_options(recipe), *_combined(recipe), *_seen(recipe.federation))
    if found:
        raise RecipeError(*found[0])


def _clients(recipe: Recipe) -> int:
    """Of a round."""
    present = recipe.partition.clients - len(recipe.adversary.absent)
    return recipe.federation.wanted(present)


def _enough(recipe: Recipe) -> Iterator[_REFUSED]:
    spec, clients = recipe.federation.robust, _clients(recipe)
    fewest = spec.fewest(spec.byzantine)
    if clients >= fewest:
        return
    mixed = f' after mixing = "{spec.mixing}"' if spec.mixing != "none" else ""
    yield (
        "federation.robust.byzantine",
        f'"{spec.rule}"{mixed} withstands {spec.byzantine} liars among {fewest} clients or more, and a round '
        f"has {clients}.",
        f"{_fewer_liars(spec, clients)}Use partition.clients = {fewest} or more with federation."
        "participation = 1, or another rule.",
    )


def _fewer_liars(spec: RobustSpec, clients: int) -> str:
    most = spec.most_liars(clients)
    return "" if most is None else f"Use byzantine = {most}: no more fit {clients} clients. Or: "


def _options(recipe: Recipe) -> Iterator[_REFUSED]:
    spec, clients = recipe.federation.robust, _clients(recipe)
    voters, liars = spec.voters(clients), spec.byzantine
    most = voters - liars - 2
    if spec.rule == "multi-krum" and spec.keep is not None and spec.keep > most:
        yield (
            "federation.robust.keep",
            f"the mean of {spec.keep} of {voters} updates may hold one of {liars} liars; Multi-Krum averages "
            f"at most n - f - 2 = {most}.",
            f"Use keep = {most} or fewer, or leave it out.",
        )


def _combined(recipe: Recipe) -> Iterator[_REFUSED]:
    """The rule takes the place of the mean; of factors it has to see what they do together."""
    federation = recipe.federation
    rule, aggregation = federation.robust.rule, federation.aggregation
    field = "federation.aggregation"
    if aggregation not in _LINEAR:
        why = "never sees one of the factors" if aggregation in LORA_RULES else "is a rule of its own"
        problem = f'"{aggregation}" {why}, and robust.rule = "{rule}" decides how updates are combined.'
        yield field, problem, 'Use aggregation = "mean", or robust.rule = "none".'
    if recipe.policy.train != "lora":
        return
    if rule in COORDINATE_RULES and aggregation not in _ONE_FACTOR:
        yield (
            "federation.robust.rule",
            f'"{rule}" compares single entries of LoRA factors, but (B R, A) and (B, R A) are the same '
            "update with other entries.",
            'Use "multi-krum" or "geometric-median", which compare products B A, or federation.aggregation = '
            '"ffa".',
        )
    if rule in REMEMBERING_RULES and aggregation not in _LASTING:
        yield (
            field,
            f'"{rule}" begins with the last round\'s update, and "{aggregation}" has other factors then.',
            'Use aggregation = "mean" or "ffa", or robust.rule = "geometric-median".',
        )


def _seen(spec: FederationSpec) -> Iterator[_REFUSED]:
    """Nothing of a client gets past the rule, and the server sees each update."""
    if spec.local not in _LOCAL:
        yield (
            "federation.local",
            f'"{spec.local}" sends or reports something beside updates, which robust.rule = '
            f'"{spec.robust.rule}" does not look at.',
            'Use "plain" or "fedprox".',
        )
    if spec.secure.enabled:
        yield (
            "federation.robust.rule",
            f'"{spec.robust.rule}" compares single updates, and with federation.secure the server sees their '
            "sum only.",
            'Use rule = "none", or leave federation.secure out.',
        )


def notes(spec: FederationSpec) -> Iterator[str]:
    """Advice: what has no effect."""
    robust = spec.robust
    changed = [n for n in RobustSpec.model_fields if getattr(robust, n) != getattr(RobustSpec(), n)]
    if not robust.on:
        if changed:
            yield f'federation.robust.{", ".join(changed)}: no effect with rule = "none".'
        return
    for name, readers in _READERS.items():
        if name in changed and robust.rule not in readers:
            yield f'federation.robust.{name} has no effect with rule = "{robust.rule}".'
    if "bucket" in changed and robust.mixing != "bucketing":
        yield f'federation.robust.bucket has no effect with mixing = "{robust.mixing}".'
    reads = robust.rule in WEIGHTED_RULES and robust.mixing == "none"
    if spec.weighting not in ("samples", "uniform") and not reads:
        yield (
            f'federation.weighting = "{spec.weighting}" has no effect with robust.rule = "{robust.rule}"'
            f"{'' if robust.mixing == 'none' else ' and mixing'}, which counts every client once."
        )
    if spec.screening.max_norm not in (None, ScreeningSpec().max_norm):
        yield "federation.screening.max_norm has no effect beside federation.robust, which sees long updates."
