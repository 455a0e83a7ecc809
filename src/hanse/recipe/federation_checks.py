"""Cross-checks of `[federation]`: options that exclude one another, or that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import BaseModel

from hanse.errors import RecipeError
from hanse.recipe import robust_checks
from hanse.recipe.federation import FederationSpec

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe

_READERS: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "weights": (
        "weighting",
        {
            "cap": ("reward-std", "relative-gain", "task-accuracy", "fairness", "coherence"),
            "std": ("reward-std",),
            "gamma": ("reward-std",),
            "ema": ("reward-std", "relative-gain", "fairness", "coherence"),
            "times_samples": ("reward-std", "relative-gain", "task-accuracy"),
            "temperature": ("relative-gain", "task-accuracy", "fairness"),
            "gain": ("relative-gain",),
            "threshold": ("fairness",),
            "tasks": ("task-accuracy",),
        },
    ),
    "server": (
        "server_optimizer",
        {
            "momentum": ("momentum", "nesterov", "coherent"),
            "betas": ("adam",),
            "tau": ("adam",),
            "ema": ("average", "coherent"),
            "floor": ("coherent",),
        },
    ),
    "local_options": ("local", {"mu": ("fedprox",), "alpha": ("fedadamw",)}),
}
"""Options by section, and under which values of another key they are read."""
_ALSO_ALONE = ("exchange_dtype", "moments", "residual")
"""What also matters where one party trains alone."""


def check_fixed_weights(recipe: Recipe) -> None:
    """One weight a client, and something to weigh."""
    spec, clients = recipe.federation, recipe.partition.clients
    if recipe.mode != "federated":
        return
    fixed, field = spec.weights.fixed, "federation.weights.fixed"
    example = f"Give one a client, as fixed = {[1.0] * min(clients, 8)}."
    if spec.weighting != "fixed":
        if fixed is not None:
            problem = f'is read by weighting = "fixed" only, and it is "{spec.weighting}".'
            raise RecipeError(field, problem, 'Leave it out, or set federation.weighting = "fixed".')
        return
    if fixed is None or len(fixed) != clients:
        given = "no weights" if fixed is None else f"{len(fixed)} weights"
        raise RecipeError(field, f"{given} for {clients} clients (partition.clients).", example)
    if min(fixed) < 0:
        raise RecipeError(field, f"{fixed} holds a negative weight.", example)
    if sum(fixed) == 0:
        raise RecipeError(field, "every weight is 0, so no client counts.", example)


def check_tasks(recipe: Recipe) -> None:
    """One task a client."""
    tasks, clients = recipe.federation.weights.tasks, recipe.partition.clients
    if recipe.mode == "federated" and tasks is not None and len(tasks) != clients:
        problem = f"{len(tasks)} names for {clients} clients (partition.clients)."
        raise RecipeError("federation.weights.tasks", problem, "Name one task a client, in their order.")


def check_calibration(recipe: Recipe) -> None:
    """A prompt at the pivot has weight 1, which the bounds contain."""
    calibration = recipe.federation.calibration
    if not calibration.low <= 1 <= calibration.high:
        name = "low" if calibration.low > 1 else "high"
        raise RecipeError(
            f"federation.calibration.{name}",
            f"the bounds {calibration.low:g} to {calibration.high:g} leave out 1, the weight of a prompt at "
            "the pivot.",
            "Use low = 0.25 and high = 2, or anything with low ≤ 1 ≤ high.",
        )


def check_budget(recipe: Recipe) -> None:
    """Fewer entries than all need a patch; what decays must be kept."""
    spec, budget = recipe.federation, recipe.federation.budget
    if budget.fraction is not None and budget.bits is None and spec.codec == "dense":
        raise RecipeError(
            "federation.codec",
            f'"dense" sends every value, whatever budget.fraction = {budget.fraction:g} allows.',
            'Use "auto", "small" or "fast".',
        )
    if budget.decay < 1 and budget.error_feedback == "off":
        raise RecipeError(
            "federation.budget.decay",
            f'{budget.decay:g} of what was not sent is kept, but error_feedback = "off" keeps nothing.',
            'Leave decay out, or use error_feedback = "upload".',
        )


def check_betas(recipe: Recipe) -> None:
    """Shares of the past."""
    for i, beta in enumerate(recipe.federation.server.betas):
        if not 0 <= beta < 1:
            problem = f"{beta:g} is outside 0 ≤ beta < 1."
            raise RecipeError(f"federation.server.betas.{i}", problem, "Use [0.9, 0.99].")


def check_reward_range(recipe: Recipe) -> None:
    """A range has a width."""
    bounds = recipe.federation.screening.reward_range
    if bounds is None or bounds[0] < bounds[1]:
        return
    raise RecipeError(
        "federation.screening.reward_range",
        f"[{bounds[0]:g}, {bounds[1]:g}] is no range: the first bound must be below the second.",
        "Use [0.0, 1.0] for rewards of right or wrong.",
    )


def check_rescaling(recipe: Recipe) -> None:
    """Updates are made comparable once."""
    spec = recipe.federation
    if spec.local == "fednova" and spec.aggregation == "norm-equalised":
        raise RecipeError(
            "federation.aggregation",
            '"norm-equalised" gives every update the same length, which undoes what "fednova" scales.',
            'Use aggregation = "mean" with local = "fednova", or local = "plain".',
        )


def notes(recipe: Recipe) -> Iterator[str]:
    """Advice: what has no effect, or one that its author may not expect."""
    if recipe.mode != "federated":
        yield from _alone(recipe)
        return
    yield from _unread(recipe.federation)
    yield from _budget(recipe)
    yield from _methods(recipe.federation)
    yield from robust_checks.notes(recipe.federation)


def _alone(recipe: Recipe) -> Iterator[str]:
    changed = [name for name in _changed(recipe.federation) if name not in _ALSO_ALONE]
    if changed:
        yield f'federation.{", ".join(changed)}: no effect with mode = "{recipe.mode}": nothing is exchanged.'


def _changed(section: BaseModel) -> list[str]:
    """The keys of a section that are not as they are by default, in its order."""
    default = type(section)()
    names = type(section).model_fields
    return [name for name in names if getattr(section, name) != getattr(default, name)]


def _unread(spec: FederationSpec) -> Iterator[str]:
    for section, (key, readers) in _READERS.items():
        chosen = spec.optimizer if key == "server_optimizer" else getattr(spec, key)
        for name in _changed(getattr(spec, section)):
            if chosen not in readers.get(name, (chosen,)):
                yield f'federation.{section}.{name} has no effect with {key} = "{chosen}".'
    if spec.budget.fraction is None:
        dead = [name for name in _changed(spec.budget) if name in ("share", "select", "grant")]
        if dead:
            yield f"federation.budget.{', '.join(dead)}: no effect without budget.fraction."
    if spec.calibration.strength == 0 and _changed(spec.calibration):
        yield "federation.calibration has no effect with strength = 0."


def _budget(recipe: Recipe) -> Iterator[str]:
    spec = recipe.federation
    if spec.aggregation == "masked" and recipe.exchange_dtype == "float32" and spec.budget.fraction is None:
        yield (
            'federation.aggregation = "masked" hardly differs from "mean" where every value changes, as in a '
            "float32 exchange without a budget."
        )
    if spec.budget.fraction == 1 and spec.budget.bits is None:
        yield (
            "federation.budget.fraction = 1 sends every change, like no budget at all, but with reports and "
            "grants first."
        )


def _methods(spec: FederationSpec) -> Iterator[str]:
    if spec.local == "scaffold" and spec.optimizer != "plain":
        yield (
            f'federation.local = "scaffold" corrects towards the plain mean step; with server_optimizer = '
            f'"{spec.optimizer}" the server takes another one.'
        )
    if spec.local in ("fedadamw", "shared-moment") and spec.moments == "reset":
        yield (
            f'federation.moments = "reset" with local = "{spec.local}": first moments begin at zero without '
            "a correction, so the first steps are short."
        )
    if spec.optimizer == "adam" and spec.server.lr > 0.1:
        yield (
            f"federation.server.lr = {spec.server.lr:g} with Adam moves every weight by up to that much a "
            "round; published: lr = 1e-3 with tau = 1e-3."
        )
