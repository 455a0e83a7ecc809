"""What FLoRA and FedEx-LoRA need beside the factors: the base's offset (docs/methods/lora-aggregation.md)."""

from __future__ import annotations

from hanse.cli.estimate import Line, here, participants
from hanse.cli.sizes import Sizes
from hanse.recipe.model import Recipe


def memory_of_offset(recipe: Recipe, sizes: Sizes, hosts: int, width: int) -> Line:
    """Every client's float32 sum and the server's with its newest step; each process's moved weights."""
    clients, step = here(recipe), _step(recipe, sizes)
    size = (2 * clients + 1) * sizes.adapted * 4 + step * 4 + hosts * sizes.adapted * width
    how = (
        f"({clients} × 2 + 1) × {sizes.adapted:,} × 4 B (this round's and the last, and the server's) + "
        f"{step:,} × 4 B on its way + {hosts} × {sizes.adapted:,} × {width} B of weights with it"
    )
    return Line("offset of the base", size, how)


def stored_offset(recipe: Recipe, sizes: Sizes) -> tuple[int, str]:
    """Of a checkpoint: every client's sum, the server's and its newest step."""
    sums, step = here(recipe) + 1, _step(recipe, sizes)
    return 4 * (sums * sizes.adapted + step), f" + ({sums} × {sizes.adapted:,} + {step:,}) × 4 B of the base"


def sent_offset(recipe: Recipe, sizes: Sizes) -> tuple[int, str]:
    """Of a broadcast to all: the newest step; or, to those who missed one, the sum."""
    clients = participants(recipe)
    entries = _step(recipe, sizes) if clients == recipe.partition.clients else sizes.adapted
    return 4 * clients * entries, f" + {clients} × {entries:,} × 4 B of the base"


def _step(recipe: Recipe, sizes: Sizes) -> int:
    """Entries of a round's step at most: a stack of the clients' factors, or the matrices themselves."""
    stacked = participants(recipe) - (recipe.federation_in_force.aggregation == "fedex")
    return min(sizes.adapted, stacked * sizes.trainable)
