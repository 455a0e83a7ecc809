from __future__ import annotations

import pytest

from hanse.swarm.assignment import beacon, horizontal, stream_seed, vertical


def test_horizontal_shares_every_group():
    made = horizontal("b", ["p", "q"], 6, [0, 1, 2])
    assert made.of(1) == {"p": [2, 3], "q": [2, 3]}
    assert [made.owners["q", slot] for slot in range(6)] == [0, 0, 1, 1, 2, 2]
    assert len(made.owners) == 12 and made.problems == ["p", "q"]
    assert made.of(9) == {}


def test_horizontal_leaves_out_what_cannot_be_shared():
    made = horizontal("b", ["p"], 7, [4, 8])
    assert made.of(8) == {"p": [3, 4, 5]} and ("p", 6) not in made.owners


def test_vertical_gives_whole_groups():
    made = vertical("b", {1: ["q"], 0: ["p", "r"]}, 3)
    assert made.of(0) == {"p": [0, 1, 2], "r": [0, 1, 2]} and made.of(1) == {"q": [0, 1, 2]}


def test_what_two_nodes_choose_belongs_to_one_of_them_whatever_its_id():
    names = [f"p{i}" for i in range(200)]
    made = vertical("b", {1: names, 0: names}, 2)
    assert made.problems == names
    assert 70 < len(made.of(0)) < 130 and len(made.of(0)) + len(made.of(1)) == 200
    assert all(slots == [0, 1] for node in (0, 1) for slots in made.of(node).values())
    assert vertical("b", {0: names, 1: names}, 2) == made
    assert vertical("c", {0: names, 1: names}, 2).of(0) != made.of(0)


def test_nobody_takes_what_the_beacon_drew_for_another():
    names = [f"p{i}" for i in range(50)]
    made = vertical("b", {0: names, 3: names, 5: ["q"]}, 2, {3: names, 0: ["q"], 5: []})
    assert list(made.of(3)) == names and made.of(0) == {} and list(made.of(5)) == ["q"]
    both = vertical("b", {0: names, 3: names}, 2, {3: names, 0: names})
    assert both.of(0) and both.of(3)


@pytest.mark.parametrize(
    "changed",
    [
        ("b", {0: "x", 1: "z"}),
        ("c", {0: "x", 1: "y"}),
        ("b", {0: "x"}),
        ("b", {0: "x", 1: "y", 2: ""}),
        ("b", {0: "y", 1: "x"}),
        ("b", {1: "x", 2: "y"}),
        ("b", {0: 'x"], [1, "y'}),
        ("b", {0: "x\x1f1=y"}),
        ("b", {}),
    ],
)
def test_the_beacon_changes_with_any_digest(changed):
    assert beacon(*changed) != beacon("b", {0: "x", 1: "y"})


def test_the_beacon_does_not_depend_on_who_came_first():
    assert beacon("b", {0: "x", 1: "y"}) == beacon("b", {1: "y", 0: "x"})


def test_any_digest_will_do():
    """It comes from another party: half a character is no error."""
    assert beacon("b", {0: "\ud800"}) != beacon("b", {0: "\ud801"})


def test_streams_by_beacon_and_problem():
    made = horizontal("b", ["p", "q"], 2, [0])
    seeds = {made.seed("p"), made.seed("q"), stream_seed("c", "p")}
    assert len(seeds) == 3 and all(0 <= seed < 1 << 63 for seed in seeds)
    assert made.seed("p") == stream_seed("b", "p")
