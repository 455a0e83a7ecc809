"""One client lies as best it can; the others must be able to go on."""

from __future__ import annotations

import pytest
import torch

from hanse.recipe.federation import LocalName
from tests.federation.fleet import Fleet
from tests.federation.liars import lying, signal, values, vector

HUGE = 3.3e38
OPTIMISERS = ("plain", "momentum", "nesterov", "adam", "average", "coherent")


def reasons(fleet: Fleet, lie, rounds: int = 3) -> list[str]:
    """Why the liar, client 0, was refused in each round; "" where it was not. The others always pass."""
    said = []
    for _ in range(rounds):
        record = fleet.round(lying(fleet, lie))
        said.append(record.screened[0].reason or "")
        assert [s.reason for s in record.screened[1:]] == [None] * (len(fleet.clients) - 1)
    return said


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_values_as_large_as_can_be_do_not_pass_even_with_two_clients(optimiser, dtype):
    fleet = Fleet(2, dtype, server_optimizer=optimiser)
    sent = torch.full_like(fleet.world.master, HUGE)
    sent[::2] *= -1
    assert all("in its update, which no honest round has" in said for said in reasons(fleet, values(sent)))
    assert float(fleet.server.state.master.abs().max()) < 10


VECTORS: list[tuple[LocalName, str]] = [
    ("scaffold", "control"),
    ("fedadamw", "second_means"),
    ("fedadamw", "rate"),
    ("shared-moment", "second"),
]


@pytest.mark.parametrize(("local", "name"), VECTORS)
def test_vectors_as_large_as_can_be_do_not_pass_even_with_two_clients(local, name):
    said = reasons(Fleet(2, local=local), vector(name, HUGE))
    assert all(f"in its {name}, which no honest round has" in reason for reason in said)


def test_a_rate_of_nearly_nothing_leaves_the_global_step_finite():
    fleet = Fleet(1, local="fedadamw")
    assert reasons(fleet, vector("rate", 1e-44), 1) == [""]
    assert bool(fleet.server.state.local["global_step"].isfinite().all())
    assert list(fleet.send(fleet.server.open_round())) == [0]


@pytest.mark.parametrize(("local", "name"), [("fedadamw", "second_means"), ("shared-moment", "second")])
def test_negative_squares_are_refused(local, name):
    """They would take the clients' mean to zero, by which Adam divides."""
    said = reasons(Fleet(2, local=local), vector(name, -1.0), 1)
    assert said == [f"has a negative square in {name}"]


@pytest.mark.parametrize(("local", "name"), VECTORS)
def test_vectors_far_longer_than_the_median_are_refused(local, name):
    fleet = Fleet(3, local=local)
    (said,) = reasons(fleet, vector(name, 1e3), 1)
    assert said.startswith(f"{name} norm ")
    assert all(float(v.abs().max()) < 1e3 for v in fleet.server.state.local.values())


@pytest.mark.parametrize("count", [999_999_999_999, 2**40 - 1])
def test_a_mean_reward_that_rounds_beyond_the_largest_can_be_broadcast(count):
    fleet = Fleet(1)
    assert reasons(fleet, signal(reward_mean=1e12, samples=count)) == ["", "", ""]
    assert fleet.server.state.reward_mean == pytest.approx(1e12)


@pytest.mark.parametrize(("weighting", "share"), [("uniform", 0.5), ("reward-std", 0.5), ("samples", 1.0)])
def test_a_claimed_number_of_problems_does_not_own_the_mean_that_others_calibrate_by(weighting, share):
    """At most cap / K = 2 / 4 of it is the liar's 1.0, but where the recipe counts by such claims."""
    fleet = Fleet(4, "float32", weighting=weighting)
    honest = fleet.round()
    rest = [s.upload.signal for s in honest.screened[1:]]
    others = sum(s.reward_mean * s.samples for s in rest) / sum(s.samples for s in rest)
    again = Fleet(4, "float32", weighting=weighting)
    assert reasons(again, signal(samples=2**39, reward_mean=1.0), 1) == [""]
    assert again.server.state.reward_mean == pytest.approx(share + (1 - share) * others)
