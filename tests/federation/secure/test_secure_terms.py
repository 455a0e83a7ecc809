"""Terms by which a server could single a client out, and what clients make of them."""

from __future__ import annotations

import pytest

from hanse.federation.secure.messages import Invitation
from hanse.federation.secure.terms import bounds, check_terms
from hanse.federation.wire.frame import WireError
from hanse.privacy.secure.graph import neighbours
from hanse.privacy.secure.protocol import Keys
from hanse.recipe.federation import FederationSpec


def spec(weighting: str = "uniform", cap: float | None = 2.0, **secure) -> FederationSpec:
    return FederationSpec(weighting=weighting, weights={"cap": cap}, secure={"enabled": True, **secure})


def invitation(weight: float = 0.2, peers: int = 4, addends: int = 5, reach: float = 0.5) -> Invitation:
    keys = {k: Keys(bytes(32), bytes(32)) for k in range(1, peers + 1)}
    return Invitation(1, 0, weight, reach, addends, keys)


@pytest.mark.parametrize(
    ("weighting", "cap", "expected"),
    [
        ("uniform", 2.0, (0.2, 0.2)),
        ("reward-std", 2.0, (0.0, 0.4)),
        ("reward-std", 9.0, (0.0, 1.0)),
        ("reward-std", None, (0.0, 1.0)),
        ("samples", 2.0, (0.0, 1.0)),
        ("fixed", 2.0, (0.0, 1.0)),
    ],
)
def test_what_one_of_five_clients_can_weigh(weighting, cap, expected):
    assert bounds(spec(weighting, cap), 5) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("weighting", "weight"), [("uniform", 1.0), ("uniform", 0.0), ("uniform", 0.21), ("reward-std", 0.41)]
)
def test_weights_that_the_recipe_excludes_are_refused(weighting, weight):
    with pytest.raises(WireError, match=r"names a weight of .* among 5 clients"):
        check_terms(invitation(weight), spec(weighting), 0.5)


def test_ranges_and_numbers_of_peers_follow_from_the_recipe():
    check_terms(invitation(), spec(), 0.5)
    check_terms(invitation(), spec(), None)
    for asked, reach in [(invitation(reach=0.25), 0.5), (invitation(), 0.25)]:
        with pytest.raises(WireError, match="another range"):
            check_terms(asked, spec(), reach)
    for peers, addends in [(4, 6), (4, 4000), (5, 5)]:
        with pytest.raises(WireError, match=f"{peers} peers where {addends} clients"):
            check_terms(invitation(1 / addends, peers, addends), spec(), 0.5)


@pytest.mark.parametrize(("clients", "degree"), [(5, None), (32, None), (9, 4), (5, 4), (6, 4)])
def test_honest_graphs_pass(clients, degree):
    graph = neighbours(list(range(clients)), degree, 0)
    for peers in graph.values():
        check_terms(invitation(1 / clients, len(peers), clients), spec(neighbours=degree), 0.5)
