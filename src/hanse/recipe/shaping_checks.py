"""Cross-checks of `[grpo.shaping]`: pairs that would undo one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hanse.errors import RecipeError

if TYPE_CHECKING:
    from hanse.recipe.model import GrpoSpec, Recipe

_FIELD = "grpo.shaping"
_REFUSED = tuple[str, str, str]


def check_shaping(recipe: Recipe) -> None:
    """Raise RecipeError for the first of what cannot be."""
    shaping = recipe.grpo.shaping
    if not shaping.enabled:
        return
    checks = (_mode(recipe), _consensus(recipe.grpo), _dra(recipe.grpo), _bot(recipe.grpo))
    for found in (one for check in checks for one in check):
        raise RecipeError(*found)


def _mode(recipe: Recipe) -> Iterator[_REFUSED]:
    if recipe.mode == "swarm":
        yield (
            _FIELD,
            "nodes of a swarm decide what a foreign completion counts before they compare rewards.",
            'Leave grpo.shaping out, or use mode = "federated", "local" or "central".',
        )
    if recipe.grpo.screening == "fresh":
        yield (
            "grpo.screening",
            '"fresh" compares with the mean reward of a first look, which is not shaped.',
            'Use screening = "joined" or "none".',
        )


def _consensus(grpo: GrpoSpec) -> Iterator[_REFUSED]:
    spec, field = grpo.shaping.consensus, f"{_FIELD}.consensus"
    if spec.enabled and spec.nodes is None:
        yield (
            f"{field}.nodes",
            "required, but not given.",
            'Name the file that `hanse consensus build RECIPE` writes, as nodes = "nodes.json".',
        )


def _dra(grpo: GrpoSpec) -> Iterator[_REFUSED]:
    spec, field = grpo.shaping.dra, f"{_FIELD}.dra"
    if not spec.enabled:
        return
    if spec.embedder == "sentence-transformers" and spec.model is None:
        yield f"{field}.model", "required, but not given.", "Name a model or its folder."
    if spec.embedder != "sentence-transformers" and spec.model is not None:
        yield (
            f"{field}.model",
            f'embedder = "{spec.embedder}" loads no model.',
            'Use embedder = "sentence-transformers", or leave model out.',
        )


def _bot(grpo: GrpoSpec) -> Iterator[_REFUSED]:
    spec, field = grpo.shaping.bot, f"{_FIELD}.bot"
    if not spec.enabled:
        return
    if grpo.scale not in ("group_population", "none"):
        yield (
            "grpo.scale",
            f'"{grpo.scale}" is not the deviation of a bag of tokens, which is its population deviation.',
            'Use scale = "group_population", or "none" to centre only.',
        )
    if grpo.baseline != "mean":
        yield (
            "grpo.baseline",
            f'"{grpo.baseline}" compares whole completions; a bag of tokens has one mean.',
            'Use baseline = "mean".',
        )
    if grpo.objective in ("gspo", "rloo"):
        yield (
            "grpo.objective",
            f'"{grpo.objective}" has one ratio a completion, so all its tokens get the same credit.',
            'Use "grpo", "dr_grpo", "dapo", "bnpo" or "cispo".',
        )
    if spec.global_weight == 0 and spec.local_weight == 0:
        yield f"{field}.global_weight", "with both weights 0 no token is rewarded.", "Give it a value."
    if spec.judge == "chat" and spec.chat is None:
        yield (
            f"{field}.chat",
            'judge = "chat" needs a model to ask.',
            f"Add a section [{field}.chat] with url and model.",
        )


def notes(recipe: Recipe) -> Iterator[str]:
    """What works, but its author may not have meant."""
    grpo = recipe.grpo
    shaping = grpo.shaping
    if shaping.dra.enabled and grpo.scale == "none" and not shaping.dra.normalise:
        yield (
            'grpo.shaping.dra with scale = "none" divides every advantage by up to '
            f"{grpo.group_size}, like a lower learning rate; normalise = true multiplies that back."
        )
    if shaping.dra.enabled and not shaping.dra.skip_equal and grpo.scale.startswith("group"):
        yield (
            "grpo.shaping.dra.skip_equal = false: a group of equal rewards is scaled up to full strength, "
            "whatever tells its completions apart."
        )
    if grpo.dynamic_sampling and (shaping.bot.enabled or shaping.consensus.enabled):
        yield (
            "grpo.dynamic_sampling drops groups by their rewards before shaping, though shaping may tell "
            "their completions apart."
        )
    if shaping.bot.enabled and shaping.bot.judge != "chat" and shaping.bot.chat is not None:
        yield 'grpo.shaping.bot.chat has no effect with judge = "arithmetic".'
