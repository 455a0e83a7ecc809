"""The small pieces of a round: commits, the exchange, the draw, mixing."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.recipe.swarm import SwarmSpec
from hanse.swarm.assignment import beacon
from hanse.swarm.collect import Written
from hanse.swarm.commit import Commit, digests
from hanse.swarm.draw import assign, drawn
from hanse.swarm.exchange import LocalExchange
from hanse.swarm.mixing import mixed
from tests.swarm.made import sent

IDS = [f"p{i}" for i in range(20)]


def test_commits_of_the_round_and_of_their_own_node_count():
    said = {i: Commit(3, i, f"policy-{i}").to_bytes() for i in range(3)}
    said |= {3: Commit(2, 3, "late").to_bytes(), 4: Commit(3, 0, "another").to_bytes(), 5: b"?"}
    assert digests(3, said) == {0: "policy-0", 1: "policy-1", 2: "policy-2"}


@given(st.binary(max_size=200))
def test_any_bytes_as_a_commit_change_nothing(data):
    good = {0: Commit(1, 0, "a").to_bytes()}
    assert digests(1, good | {1: data}) == {0: "a"}


def test_where_all_hold_one_policy_nobody_tries_digests_until_the_beacon_suits_it():
    honest = {i: Commit(3, i, "held").to_bytes() for i in range(2)}
    for ground in ("a", "b", "c"):
        assert digests(3, honest | {2: Commit(3, 2, ground).to_bytes()}, "held") == {0: "held", 1: "held"}
    assert digests(3, honest | {2: Commit(3, 2, "held").to_bytes()}, "held").keys() == {0, 1, 2}


def test_a_beacon_depends_on_the_past_and_on_every_digest():
    one = beacon("b", {0: "x", 1: "y"})
    assert one == beacon("b", {1: "y", 0: "x"})
    assert (
        len({one, beacon("c", {0: "x", 1: "y"}), beacon("b", {0: "x", 1: "z"}), beacon("b", {0: "x"})}) == 4
    )


def test_what_is_published_twice_counts_once():
    exchange = LocalExchange()
    exchange.publish("1/bundle", 1, b"first")
    exchange.publish("1/bundle", 0, b"zero")
    exchange.publish("1/bundle", 1, b"second")
    assert list(exchange.gather("1/bundle").items()) == [(0, b"zero"), (1, b"first")]
    exchange.close("1/bundle")
    assert exchange.gather("1/bundle") == {}


def test_problems_are_different_ones_and_the_same_for_the_same_beacon():
    assert len(set(drawn(IDS, 8, "b"))) == 8
    assert drawn(IDS, 8, "b") == drawn(IDS, 8, "b") != drawn(IDS, 8, "c")
    assert sorted(drawn(IDS, 99, "b")) == sorted(IDS)


def test_every_slot_has_one_owner():
    across = assign("horizontal", "b", IDS, 4, 6, [0, 1, 2])
    assert all(len(slots) == 2 for node in range(3) for slots in across.of(node).values())
    assert len(across.problems) == 4 and len(across.owners) == 24
    along = assign("vertical", "b", IDS, 6, 4, [0, 1, 2])
    assert [len(along.of(node)) for node in range(3)] == [2, 2, 2]
    assert all(slots == [0, 1, 2, 3] for node in range(3) for slots in along.of(node).values())
    chosen = assign("vertical", "b", IDS, 6, 4, [0, 1], {0: ["p1"], 1: ["p1", "p2"]})
    assert chosen.problems == ["p1", "p2"] and "p2" in chosen.of(1)


def test_a_low_id_shadows_nobody():
    """It sees what the others will draw, and chooses just that."""
    honest = drawn(IDS, 3, "b", 1)
    made = assign("vertical", "b", IDS, 6, 4, [0, 1], {0: honest, 1: honest})
    assert set(made.of(1)) >= set(honest) - set(drawn(IDS, 3, "b", 0))


def test_mixing_keeps_own_groups_and_draws_useful_foreign_ones():
    names = ["a", "b", "c", "d"]
    written = [Written(n, 0, (1,), True, sent(i, 0, problem=n)) for i, n in enumerate(names)]
    advantages = torch.tensor([[0.0, 0.0], [1.0, -1.0], [0.0, 0.0], [1.0, -1.0]])

    def of(external: int | None, sampling: str = "informative") -> list[int] | None:
        spec = SwarmSpec(external=external, external_sampling=sampling)
        return mixed(spec, names, advantages, written, 0, 5, "b")

    assert of(None) is None
    assert of(0) == [0]
    assert of(2) == of(9) == [0, 1, 3]
    assert of(9, "uniform") == [0, 1, 2, 3]
    one = of(1, "uniform")
    assert one is not None and one[0] == 0 and len(one) == 2
