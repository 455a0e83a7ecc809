"""Server optimisers over two rounds by hand; their state between rounds."""

from __future__ import annotations

from io import BytesIO

import pytest
import torch

from hanse.federation.records import ServerState
from hanse.federation.server import Server
from hanse.federation.server_optimizer import SERVER_OPTIMIZERS, Agreement
from hanse.federation.wire.layout import Layout
from hanse.recipe.federation import FederationSpec, ServerSpec

MOVES = ([1.0, -2.0, 0.0], [0.5, 2.0, 0.0])
SIZES = [2, 1]


def run(name: str, moves=MOVES, between=lambda state: state, **options) -> list[list[float]]:
    """The steps that the master takes from one round to the next."""
    spec, state, master = ServerSpec(**options), {}, torch.zeros(len(moves[0]))
    steps = []
    for move in moves:
        target = master.double() + torch.tensor(move, dtype=torch.float64)
        before = master.clone()
        agreement = Agreement(master, master.clone(), target, SIZES)
        master, state = SERVER_OPTIMIZERS[name](spec, between(state), agreement)
        assert torch.equal(agreement.master, before)
        assert master.dtype == torch.float32
        steps.append((master - before).tolist())
    return steps


BY_HAND = [
    ("plain", {}, MOVES),
    ("plain", {"lr": 0.5}, ([0.5, -1.0, 0.0], [0.25, 1.0, 0.0])),
    ("momentum", {"momentum": 0.5}, ([1.0, -2.0, 0.0], [0.75, 0.0, 0.0])),
    ("momentum", {"momentum": 0.5, "lr": 2.0}, ([2.0, -4.0, 0.0], [1.5, 0.0, 0.0])),
    ("nesterov", {"momentum": 0.5}, ([1.5, -3.0, 0.0], [1.0, 2.5, 0.0])),
    ("average", {}, MOVES),
    (
        "adam",
        {"betas": (0.5, 0.75), "tau": 1.0, "lr": 1.0},
        (
            [0.5 / (1 + 1), -1.0 / (1.75**0.5 + 1), 0.0],
            [0.5 / (0.8125**0.5 + 1), 0.5 / ((0.75 * 1.75 + 1) ** 0.5 + 1), 0.0],
        ),
    ),
]


@pytest.mark.parametrize(("name", "options", "steps"), BY_HAND)
def test_two_rounds_by_hand(name, options, steps):
    taken = run(name, **options)
    assert taken[0] == pytest.approx(steps[0])
    assert taken[1] == pytest.approx(steps[1], abs=1e-6)


def test_coherent_by_hand():
    """Tensors (2, 1): the first turns round, the second repeats itself.

    Energies of the first round 2 and 1, agreement 0.1 of them. Then <d, last> = -2 and 1, so s = 0.1 - 1 and
    0.05 + 0.5 = 0.55, t = 2 and 1, gains 0.1 (the floor) and 0.55.
    """
    first, second = [1.0, 1.0, 1.0], [-1.0, -1.0, 1.0]
    taken = run("coherent", (first, second), momentum=0.0, ema=0.5, floor=0.1)
    assert taken[0] == pytest.approx(first)
    rescale = (3 / (2 * 0.1**2 + 0.55**2)) ** 0.5
    assert taken[1] == pytest.approx([-0.1 * rescale, -0.1 * rescale, 0.55 * rescale], rel=1e-5)
    assert sum(x * x for x in taken[1]) == pytest.approx(3, rel=1e-5)


def test_coherent_with_everything_at_the_floor_is_momentum():
    moves = ([1.0, 1.0, 1.0], [-1.0, -1.0, -1.0])
    assert run("coherent", moves, momentum=0.5, ema=0.0)[1] == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)
    assert run("momentum", moves, momentum=0.5)[1] == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize("name", SERVER_OPTIMIZERS)
def test_no_update_is_no_step_and_no_division_by_zero(name):
    assert run(name, ([0.0] * 3, [0.0] * 3)) == [[0.0] * 3, [0.0] * 3]


@pytest.mark.parametrize("name", SERVER_OPTIMIZERS)
def test_a_state_that_was_stored_goes_on_bit_for_bit(name):
    def stored(state):
        file = BytesIO()
        torch.save(dict(state), file)
        file.seek(0)
        return torch.load(file, weights_only=True)

    random = torch.Generator().manual_seed(0)
    moves = [torch.randn(3, generator=random).tolist() for _ in range(4)]
    assert run(name, moves) == run(name, moves, between=stored)


def test_weight_averaging_shows_the_mean_and_trains_from_the_newest():
    spec = FederationSpec(server_optimizer="average", server={"ema": 0.75})
    server = Server(spec, Layout(("w",), ((2,),), "float32"), [0], ServerState(torch.zeros(2)))
    average = SERVER_OPTIMIZERS["average"]
    for target in ([4.0, 8.0], [8.0, 0.0]):
        state = server.state
        agreement = Agreement(state.master, state.master, torch.tensor(target, dtype=torch.float64), [2])
        state.master, state.optimizer = average(spec.server, state.optimizer, agreement)
    assert server.state.master.tolist() == [8.0, 0.0]
    assert server.values().tolist() == [0.75 * 4 + 0.25 * 8, 0.75 * 8]


def test_a_server_keeps_what_the_cast_dropped_of_its_own_values():
    """Master 1 + 2^-12, sent as 1; clients agree on 1.5: the master keeps its 2^-12."""
    master, base = torch.tensor([1 + 2**-12]), torch.tensor([1.0]).bfloat16()
    agreement = Agreement(master, base, torch.tensor([1.5], dtype=torch.float64), [1])
    for name in ("plain", "average", "coherent"):
        assert SERVER_OPTIMIZERS[name](ServerSpec(), {}, agreement)[0].item() == 1.5 + 2**-12
