"""Cross-checks of `[privacy]`: a problem's gradient may depend on that problem alone, and on what is "
"public."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hanse.errors import RecipeError

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe

OBJECTIVES = ("grpo", "dr_grpo", "gspo", "rloo")
"""Those whose denominators are numbers of rollouts, or constants."""
TOLD = ("reward-std", "relative-gain", "task-accuracy", "fairness")
"""Weightings that read reward means or deviations."""
_REFUSED = tuple[str, str, str]


def check_privacy(recipe: Recipe) -> None:
    """Nothing that mixes problems, and a budget or a noise."""
    if not recipe.privacy.enabled:
        return
    found = (*_budget(recipe), *_mode(recipe), *_batch(recipe), *_choice(recipe), *_signals(recipe))
    if found:
        raise RecipeError(*found[0])


def _budget(recipe: Recipe) -> Iterator[_REFUSED]:
    spec = recipe.privacy
    if spec.epsilon is None and spec.noise is None:
        yield (
            "privacy.epsilon",
            "neither a budget nor a noise is given.",
            "Give privacy.epsilon = 8, say, from which the noise follows; or privacy.noise, 0 for none.",
        )
    if spec.noise == 0 and spec.epsilon is not None:
        yield (
            "privacy.noise",
            f"without noise the first step costs more than privacy.epsilon = {spec.epsilon:g}.",
            "Leave it out, and the noise follows from the budget.",
        )
    if spec.noise == 0 and spec.signals == "noised":
        yield (
            "privacy.noise",
            "without noise there is none for signals either.",
            'Use more than 0, or privacy.signals = "constant".',
        )


def _mode(recipe: Recipe) -> Iterator[_REFUSED]:
    if recipe.mode not in ("central", "local", "federated"):
        yield (
            "privacy.enabled",
            f'mode = "{recipe.mode}" has another record than a problem with its group, or shows completions.',
            'Use mode = "federated", "local" or "central".',
        )


def _batch(recipe: Recipe) -> Iterator[_REFUSED]:
    """What would make one problem's gradient depend on its batch-mates."""
    grpo = recipe.grpo
    if grpo.objective not in OBJECTIVES:
        names = ", ".join(f'"{name}"' for name in OBJECTIVES)
        yield (
            "grpo.objective",
            f'"{grpo.objective}" divides by the tokens of the whole batch, so each problem weighs on all.',
            f"Use one of {names}.",
        )
    if grpo.scale == "batch":
        yield (
            "grpo.scale",
            '"batch" divides by the deviation of all rewards of a batch.',
            'Use "group", "group_population" or "none".',
        )
    if grpo.reward_weights.type == "hypergradient":
        yield (
            "grpo.reward_weights.type",
            '"hypergradient" moves weights by the gradients of all problems of a batch.',
            'Use "sum".',
        )
    calibration = recipe.federation_in_force.calibration
    if calibration.strength > 0 and (calibration.normalise != "none" or calibration.pivot == "local"):
        yield (
            "federation.calibration",
            f'normalise = "{calibration.normalise}", pivot = "{calibration.pivot}" compare problems.',
            'Use normalise = "none" with pivot = "constant", or "global" where privacy.signals = "noised".',
        )


def _choice(recipe: Recipe) -> Iterator[_REFUSED]:
    """What would use a problem more than once a step, or not, depending on what it gave."""
    grpo = recipe.grpo
    if grpo.iterations * grpo.mini_batches > 1:
        field = "grpo.iterations" if grpo.iterations > 1 else "grpo.mini_batches"
        yield (
            field,
            "several updates on one batch use its problems several times, and what the sampling hides, once.",
            f"Use {field} = 1, and more local_steps.",
        )
    chosen = {
        "grpo.dynamic_sampling": (grpo.dynamic_sampling, "false"),
        "grpo.screening": (grpo.screening != "none", '"none"'),
        "grpo.allocation": (grpo.allocation != "uniform", '"uniform"'),
        "federation.rollouts": (recipe.federation_in_force.rollouts != "equal", '"equal"'),
    }
    for field, (wanted, remedy) in chosen.items():
        if wanted:
            problem = "it chooses problems, or how many, by what they gave; the sampling has to be blind."
            yield field, problem, f"Use {field} = {remedy}."


def _signals(recipe: Recipe) -> Iterator[_REFUSED]:
    federation, noised = recipe.federation_in_force, recipe.privacy.signals == "noised"
    if federation.weighting in TOLD and not noised:
        yield (
            "federation.weighting",
            f'"{federation.weighting}" reads rewards, which clients do not tell under privacy.',
            'Use "uniform" or "samples", or privacy.signals = "noised", which costs some accuracy.',
        )
    if federation.weights.std == "pooled" and federation.weighting == "reward-std":
        yield (
            "federation.weights.std",
            '"pooled" is a deviation over problems, which no client tells under privacy.',
            'Use "within".',
        )
    calibration = federation.calibration
    if calibration.strength > 0 and calibration.pivot == "global" and not noised:
        yield (
            "federation.calibration.pivot",
            '"global" is the mean of rewards, which clients do not tell under privacy.',
            'Use "constant", or privacy.signals = "noised".',
        )
    if federation.budget.share == "signal" and federation.budget.fraction is not None and not noised:
        yield (
            "federation.budget.share",
            '"signal" shares by deviations of rewards, which clients do not tell under privacy.',
            'Use "uniform" or "own".',
        )
