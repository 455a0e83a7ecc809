"""What privacy of problems comes to, client by client, in words."""

from __future__ import annotations

from collections.abc import Mapping

from hanse.errors import RecipeError
from hanse.recipe.model import Recipe
from hanse.recipe.sums import prompts_per_update


def privacy_of_partition(recipe: Recipe) -> list[str]:
    """Noise and loss of each client; or why they are not known here."""
    from hanse.tasks.build import recipe_task
    from hanse.tasks.partition import build_partition

    if recipe.partition.by == "own":
        return ["each client's noise follows from how many problems it brings."]
    try:
        problems = recipe_task(recipe).problems("train")
    except RecipeError as error:
        return [f"unknown here: {error}"]
    parts = build_partition(recipe.partition, problems, recipe.seed)
    sizes = {part.name: len(part.problems) for part in parts}
    return privacy_in_words(recipe, {"all": sum(sizes.values())} if recipe.mode == "central" else sizes)


def privacy_in_words(recipe: Recipe, problems: Mapping[str, int]) -> list[str]:
    """A sentence for each client with so many problems. Raises RecipeError where the extra `dp` is "
    "missing."""
    from hanse.privacy.accountant import affordable, calibrate, epsilon

    spec, grpo, lines = recipe.privacy, recipe.grpo, []
    batch, steps = prompts_per_update(recipe), recipe.rounds * grpo.local_steps
    for name, count in problems.items():
        if batch > count:
            lines.append(f"{name} has {count:,} problems, fewer than the {batch} that a step is to take.")
            continue
        rate, delta, noise = batch / count, spec.delta_of(count), spec.noise
        if noise is None:
            assert spec.epsilon is not None
            noise = calibrate(spec.accountant, spec.epsilon, delta, rate, steps)
        text = f"{name}: {count:,} problems, each in a step with probability {rate:.3g}"
        text += f"; noise {noise:.3g} × clip"
        if noise == 0:
            lines.append(f"{text}: no guarantee.")
            continue
        done = steps
        if spec.epsilon is not None:
            done = affordable(spec.accountant, spec.epsilon, delta, rate, noise, steps)
        cost = epsilon(spec.accountant, noise, rate, done, delta)
        stop = "" if done == steps else f", which is all that privacy.epsilon = {spec.epsilon:g} affords"
        lines.append(f"{text}; ({cost:.3g}, {delta:.1e}) after {done} of {steps} steps{stop}.")
    return lines
