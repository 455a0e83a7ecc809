"""What `hanse check` says of clients on machines of their own: what one of them needs, and the server."""

from __future__ import annotations

from hanse.cli.estimate import (
    KEPT_ROUNDS,
    Line,
    client_state,
    disk,
    exchange_width,
    memory,
    participants,
    server_state,
)
from hanse.cli.sizes import Sizes
from hanse.recipe.model import Recipe

SENDING = 6
"""How often a message is in memory, at most, while it leaves or arrives (benchmarks/flower_memory.py)."""
_SERVERS = ("server's values",)
_CLIENTS = ("state of the learners", "logits and their gradient")


def memory_of_client(recipe: Recipe, sizes: Sizes) -> list[Line]:
    """Of each client's machine."""
    kept = [line for line in memory(recipe, sizes) if line.what not in _SERVERS]
    size, how = _message(recipe, sizes)
    return [*kept, Line("messages", SENDING * size, f"{SENDING} × {how}")]


def memory_of_server(recipe: Recipe, sizes: Sizes) -> list[Line]:
    """Replies wait for their round's end, late ones for the next's."""
    runtime, trained = recipe.runtime, sizes.trainable
    kept = [line for line in memory(recipe, sizes) if line.what not in _CLIENTS]
    size, how = _message(recipe, sizes)
    clients = participants(recipe) + runtime.over_select
    lines = [Line("messages", (SENDING + clients) * size, f"({SENDING} + {clients} replies) × {how}")]
    if runtime.weighs_late:
        width, rounds = exchange_width(recipe), runtime.stale_rounds
        bases = Line("bases of late uploads", rounds * trained * width, f"{rounds} × {trained:,} × {width} B")
        late = recipe.partition.clients
        lines += [bases, Line("late uploads", late * size, f"{late} × {how}")]
    return [*kept, *lines]


def disk_of_client(recipe: Recipe, sizes: Sizes) -> list[Line]:
    """Two rounds and one being written, of its state and its last upload."""
    state, kept = client_state(recipe)
    size, how = _message(recipe, sizes)
    rounds, trained = KEPT_ROUNDS + 1, sizes.trainable
    how = f"({KEPT_ROUNDS} rounds + 1 being written) × ({trained:,} × {state} B ({kept}) + {how})"
    return [Line("its state", rounds * (trained * state + size), how)]


def disk_of_server(recipe: Recipe, sizes: Sizes) -> list[Line]:
    """Clients' states are not with it."""
    server, _ = server_state(recipe)
    a_round = sizes.trainable * server
    policies = [line for line in disk(recipe, sizes) if line.what.startswith("policy/")]
    return [
        Line("one round", a_round, f"{sizes.trainable:,} × {server} B"),
        Line("rounds/ at its peak", (KEPT_ROUNDS + 1) * a_round, f"{KEPT_ROUNDS} kept + 1 being written"),
        *policies,
    ]


def _message(recipe: Recipe, sizes: Sizes) -> tuple[int, str]:
    """The values of a dense message."""
    width = exchange_width(recipe)
    return sizes.trainable * width, f"{sizes.trainable:,} × {width} B"
