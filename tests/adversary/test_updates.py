"""What lying clients send, worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hanse.adversary.inflate_signal import inflate_signal
from hanse.adversary.updates import UPDATE_ATTACKS, Scene
from hanse.adversary.updates.halving import largest, squared_distances
from hanse.adversary.updates.lie import largest_z
from hanse.federation.signal import Signal
from hanse.recipe.adversary import AdversarySpec

SEEN = [[1.0, 0.0], [3.0, 4.0], [2.0, 2.0]]


def scene(own=((1.0, -2.0),), seen=SEEN, clients=10, **fields) -> Scene:
    own_FD = torch.tensor(own, dtype=torch.float64)
    document = {"liars": list(range(len(own))), "own_FD": own_FD, "clients": clients, "seed": 3}
    document |= {"seen_KD": torch.tensor(seen, dtype=torch.float64), "first_FD": own_FD * 7}
    return Scene(**document | {"moved_D": torch.tensor([0.5, 0.25], dtype=torch.float64)} | fields)


def told(attack: str, where: Scene | None = None, **options) -> list[list[float]]:
    return UPDATE_ATTACKS[attack](AdversarySpec(attack=attack, **options), where or scene()).tolist()


@pytest.mark.parametrize(
    ("attack", "options", "sent"),
    [
        ("sign-flip", {}, [-1.0, 2.0]),
        ("sign-flip", {"factor": 3}, [-3.0, 6.0]),
        ("zero", {}, [0.0, 0.0]),
        ("free-rider", {}, [0.5, 0.25]),
        ("replay", {}, [7.0, -14.0]),
        ("scaling", {}, [10.0, -20.0]),
        ("scaling", {"factor": 2}, [2.0, -4.0]),
        ("ipm", {}, [-2.0, -2.0]),
        ("ipm", {"factor": 0.5}, [-1.0, -1.0]),
        # mean (2, 2), population std (sqrt(2/3), sqrt(8/3))
        ("lie", {"factor": 3}, [2 - 3 * math.sqrt(2 / 3), 2 - 3 * math.sqrt(8 / 3)]),
    ],
)
def test_by_hand(attack, options, sent):
    assert told(attack, **options) == [pytest.approx(sent)]


def test_f_liars_of_n_replace_the_model_together():
    where = scene(own=((1.0, 2.0), (1.0, 2.0)), clients=6)
    honest, lies = torch.zeros(4, 2), torch.tensor(told("scaling", where))
    assert torch.cat([honest, lies]).mean(0).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("attack", ["lie", "ipm", "min-max", "min-sum", "free-rider"])
def test_those_who_collude_say_the_same(attack):
    first, second = told(attack, scene(own=((1.0, 2.0), (5.0, 6.0))))
    assert first == second


@pytest.mark.parametrize(
    ("n", "f", "share"),
    [
        (50, 24, 24 / 26),  # the paper's: s = 26 - 24 = 2
        (15, 3, 7 / 12),  # s = 8 - 3 = 5
        (15, 6, 7 / 9),  # s = 2
        (10, 2, 4 / 8),  # s = 4: half of the honest ones, z = 0
    ],
)
def test_z_is_the_quantile_and_not_the_distribution(n, f, share):
    z = largest_z(n, f)
    assert 0.5 * (1 + math.erf(z / math.sqrt(2))) == pytest.approx(share)


@pytest.mark.parametrize(("n", "f"), [(3, 3), (4, 3), (3, 2), (1, 1)])
def test_z_is_0_where_nobody_has_to_be_won_over_or_nobody_can(n, f):
    assert largest_z(n, f) == 0


def test_noise_has_the_size_asked_for_and_stays_on_changed_entries():
    own = torch.full((1, 20_000), 2.0, dtype=torch.float64)
    own[0, ::2] = 0
    where = scene(own=own.tolist(), seen=own.tolist(), moved_D=own[0])
    noise = torch.tensor(told("gaussian", where, factor=1.5)) - own
    assert float(noise[0, ::2].abs().max()) == 0
    assert float(noise[0, 1::2].std()) == pytest.approx(3.0, rel=0.03)
    assert told("gaussian", where) == told("gaussian", where)
    assert told("gaussian", scene(seed=4)) != told("gaussian", scene())


def test_two_liars_draw_noise_of_their_own():
    first, second = told("gaussian", scene(own=((1.0, 1.0), (1.0, 1.0))))
    assert first != second


def test_min_max_by_hand():
    """Updates 0 and 4 on a line: mean 2, std 2; the lie 2 - 2 gamma is at most 4 from both: gamma = 1."""
    assert told("min-max", scene(seen=[[0.0, 0.0], [4.0, 0.0]])) == [pytest.approx([0.0, 0.0])]


def test_min_sum_by_hand():
    """The same two: 16 is the largest sum; 4 (1 - gamma)^2 + 4 (1 + gamma)^2 = 16 at gamma = 1."""
    assert told("min-sum", scene(seen=[[0.0, 0.0], [4.0, 0.0]])) == [pytest.approx([0.0, 0.0])]


updates = arrays("float64", (4, 3), elements=st.floats(-3, 3, width=16))


@given(updates, st.sampled_from(["unit", "std", "sign"]))
def test_min_max_reaches_its_bound_and_keeps_it(seen, kind):
    seen = torch.from_numpy(seen)
    lie = torch.tensor(
        told("min-max", scene(seen=seen.tolist(), moved_D=seen[0]), perturbation=kind), dtype=torch.float64
    )
    farthest = float((lie - seen).norm(dim=1).max())
    bound = float(squared_distances(seen).max().sqrt())
    assert farthest <= bound + 1e-9
    if not torch.equal(lie[0], seen.mean(0)):
        assert farthest == pytest.approx(bound, rel=1e-6)


@given(updates, st.sampled_from(["unit", "std", "sign"]))
def test_min_sum_reaches_its_bound_and_keeps_it(seen, kind):
    seen = torch.from_numpy(seen)
    lie = torch.tensor(
        told("min-sum", scene(seen=seen.tolist(), moved_D=seen[0]), perturbation=kind), dtype=torch.float64
    )
    total = float((lie - seen).square().sum())
    bound = float(squared_distances(seen).sum(1).max())
    assert total <= bound * (1 + 1e-9) + 1e-9
    if not torch.equal(lie[0], seen.mean(0)):
        assert total == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize(("place", "found"), [(0.0, 0.0), (0.3, 0.3), (1000.0, 1000.0), (math.inf, 0.0)])
def test_halving_finds_the_place(place, found):
    assert largest(lambda gamma: gamma <= place) == pytest.approx(found, abs=1e-12)


def test_an_inflated_signal_is_one_that_could_be_true():
    honest = Signal(0.01, 0.03, 160, 5, 100, reward_std_pooled=0.1)
    lie = inflate_signal(honest, 10)
    assert (lie.reward_mean, lie.reward_std, lie.reward_std_pooled) == (0.5, 0.3, 0.5)
    assert (lie.groups, lie.informative, lie.samples) == (160, 160, 100)
