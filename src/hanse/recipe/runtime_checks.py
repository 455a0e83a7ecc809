"""Cross-checks of `[runtime]`: quorums that cannot be met, and waiting where nobody comes late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.errors import RecipeError

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe


def participants(recipe: Recipe) -> int:
    """Clients that a round is meant to have; `runtime.over_select` comes on top."""
    return recipe.federation.wanted(recipe.partition.clients)


def check_runtime(recipe: Recipe) -> None:
    """What the runtime's type can do, and numbers that fit the number of clients."""
    spec = recipe.runtime
    if recipe.mode != "federated":
        _refuse_outside_federation(recipe)
        return
    if not spec.elsewhere:
        _refuse_waiting(recipe)
    if spec.type == "flower" and spec.workers > 1:
        problem = 'is of clients on one machine, and with type = "flower" each is on its own.'
        raise RecipeError("runtime.workers", problem, "Leave it out.")
    wanted, clients = participants(recipe), recipe.partition.clients
    if isinstance(spec.quorum, int) and spec.quorum > wanted:
        raise RecipeError(
            "runtime.quorum",
            f"{spec.quorum} usable uploads can never come from the {wanted} clients of a round.",
            f"Use {wanted}, or fewer; a share such as 0.5 also works.",
        )
    if wanted + spec.over_select > clients:
        raise RecipeError(
            "runtime.over_select",
            f"{wanted} clients a round and {spec.over_select} more are over the {clients} that there are "
            "(partition.clients).",
            f"Use over_select = {clients - wanted}, or lower federation.participation.",
        )


def check_own_data(recipe: Recipe) -> None:
    """`partition.by = "own"`: clients elsewhere bring their data, and the server evaluates on its own."""
    partition, task = recipe.partition, recipe.task
    if partition.by != "own":
        if partition.names is not None:
            problem = f'is read with by = "own" only, and it is "{partition.by}".'
            raise RecipeError("partition.names", problem, 'Leave it out, or set partition.by = "own".')
        return
    if recipe.mode != "federated" or recipe.runtime.type != "flower":
        problem = '"own" leaves training problems with their owners, who join a server.'
        remedy = 'Set mode = "federated" and runtime.type = "flower", or choose another partition.'
        raise RecipeError("partition.by", problem, remedy)
    if task.type not in ("jsonl", "parquet"):
        problem = f'"own" needs a file at each client, and task.type is "{task.type}".'
        raise RecipeError("partition.by", problem, 'Use task.type = "jsonl" or "parquet".')
    if task.held_out_path is None:
        raise RecipeError(
            "task.held_out_path",
            'with partition.by = "own" the server sees no training file that it could hold problems out of.',
            "Name a file of public problems to evaluate on.",
        )
    _check_names(recipe)


def _check_names(recipe: Recipe) -> None:
    names, clients = recipe.partition.names, recipe.partition.clients
    if names is None:
        return
    if len(names) != clients:
        problem = f"{len(names)} names for {clients} clients (partition.clients)."
        raise RecipeError("partition.names", problem, f"Give {clients} names, or set clients = {len(names)}.")
    if len(set(names)) != len(names):
        raise RecipeError("partition.names", f"{names} holds a name twice.", "Name each client differently.")


def _refuse_outside_federation(recipe: Recipe) -> None:
    spec = recipe.runtime
    if spec.elsewhere:
        problem = f'"{spec.type}" carries the messages of a federation, and mode is "{recipe.mode}".'
        raise RecipeError("runtime.type", problem, 'Set mode = "federated", or runtime.type = "local".')
    for name in ("quorum", "patience", "deadline_s", "over_select", "late"):
        if getattr(spec, name) != type(spec).model_fields[name].default:
            problem = f'waits for clients of a federation, and mode is "{recipe.mode}".'
            raise RecipeError(f"runtime.{name}", problem, "Leave it out.")


def _refuse_waiting(recipe: Recipe) -> None:
    """Clients of this process are never late: waiting for them has no end, and more of them no use."""
    spec = recipe.runtime
    for name, given in (("deadline_s", spec.deadline_s is not None), ("over_select", spec.over_select > 0)):
        if given:
            problem = 'is for clients that may come late, and with type = "local" none does.'
            raise RecipeError(
                f"runtime.{name}", problem, 'Leave it out, or set type = "flower" or "flower-simulation".'
            )
