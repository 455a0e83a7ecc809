"""Robust rules by hand, one after the other."""

from __future__ import annotations

import pytest
import torch

from hanse.federation.robust import ROBUST
from hanse.federation.robust.base import moving, squared_distances, typical
from hanse.federation.robust.bulyan import bulyan, chosen
from hanse.federation.robust.mixing import bucketing, nearest
from hanse.federation.robust.trimmed_mean import trimmed_mean
from hanse.randomness import generator
from tests.federation.robust.views import moved, points, settle, view

LINE = points(0, 1, 3, 4.5, 100)
"""Krum with f = 1 sums over two neighbours: 1 + 9, 1 + 4, 2.25 + 4, 2.25 + 12.25, and the last far away."""


def linear(rule: str, seen) -> list[float]:
    function = ROBUST[rule].linear
    assert function is not None
    return function(seen).tolist()


def test_krum_takes_the_update_closest_to_its_neighbours():
    assert linear("krum", view(LINE, 1)) == [0, 1, 0, 0, 0]


def test_multi_krum_averages_the_lowest_scores():
    assert linear("multi-krum", view(LINE, 1)) == [0, 0.5, 0.5, 0, 0]
    assert linear("multi-krum", view(LINE, 1, keep=1)) == [0, 1, 0, 0, 0]


def test_multi_krum_never_averages_more_than_is_safe():
    assert linear("multi-krum", view(LINE, 1, keep=4)) == [0, 0.5, 0.5, 0, 0]


def test_bulyan_by_hand():
    """Krum takes 12, 13, 11, 14, 10 in turn; the three nearest to their median 12 are 12, 11 and 13."""
    updates = points(10, 11, 12, 13, 14, 15, 1000)
    assert chosen(view(updates, 1)).tolist() == [0, 1, 2, 3, 4]
    settled = settle("bulyan", updates, 1)
    assert moved(settled).tolist() == [12]
    assert settled.coefficients_C == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3, 0, 0, 0])


def test_bulyans_second_phase_goes_by_distance_to_the_median_not_by_rank():
    block = points(0, 10, 11, 12, 12.5)
    assert sorted(bulyan(block, 1)[:, 0].tolist()) == [1, 2, 3]
    assert sorted(bulyan(points(0, 1, 11, 12, 12.5), 1)[:, 0].tolist()) == [2, 3, 4]


@pytest.mark.parametrize(
    ("rows", "middle", "coefficients"),
    [
        ([[5, -1], [1, 7], [2, 0]], [2, 0], [0, 0, 1]),
        ([[5, 0], [1, 0], [2, 0], [4, 0]], [3, 0], [0, 0, 0.5, 0.5]),
    ],
)
def test_the_median_of_coordinates(rows, middle, coefficients):
    settled = settle("median", points(*rows), 0)
    assert moved(settled).tolist() == middle
    assert settled.coefficients_C == coefficients


def test_the_trimmed_mean_drops_f_on_either_side():
    settled = settle("trimmed-mean", points(100, 2, 3, 4, -50), 1)
    assert moved(settled).tolist() == [3]
    assert settled.coefficients_C == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3, 0])
    assert trimmed_mean(points(2, 1, 3, 0), 1)[:, 0].tolist() == [1, 0]


def test_entries_that_nobody_changed_say_nothing_of_coefficients():
    settled = settle("median", points([0, 3, 0], [0, 1, 0], [0, 2, 0]), 1)
    assert settled.coefficients_C == [0, 0, 1]


@pytest.mark.parametrize(
    ("rows", "weights", "expected"),
    [
        ([[0, 0], [4, 0], [0, 4], [4, 4]], None, [2, 2]),
        ([[0, 0], [1, 0], [10, 0]], None, [1, 0]),
        ([[0, 0], [4, 0], [0, 4], [1, 1]], None, [1, 1]),
        ([[0, 0], [1, 0], [10, 0]], [0.2, 0.2, 0.6], [10, 0]),
    ],
)
def test_geometric_medians_by_hand(rows, weights, expected):
    """The middle of a square; the middle one of three on a line; the fourth inside a triangle; who has more
    than half of the weight."""
    updates = points(*rows)
    c = torch.tensor(linear("geometric-median", view(updates, 1, weights=weights)))
    assert float(c.sum()) == pytest.approx(1)
    assert (c.double() @ updates).tolist() == pytest.approx(expected, abs=1e-4)


def test_weiszfelds_first_step_by_hand():
    """From the mean of the densest half, 0 and 1: distances 1/2, 1/2 and 9 1/2 give pulls 38 : 38 : 2."""
    c = linear("geometric-median", view(points(0, 1, 10), 1, iterations=1))
    assert c == pytest.approx([38 / 78, 38 / 78, 2 / 78])


def test_norm_clipping_cuts_to_the_median_length():
    """Of lengths 1, 2, 3, 8 the lower median is 2."""
    seen = view(points(1, 2, 3, -8), 1)
    assert linear("norm-clipping", seen) == pytest.approx([0.25, 0.25, 0.25 * 2 / 3, 0.25 / 4])
    twice = view(points(1, 2, 3, -8), 1, radius=2.0)
    assert linear("norm-clipping", twice) == pytest.approx([0.25, 0.25, 0.25, 0.125])


def test_centred_clipping_by_hand():
    """From 2: distances 1, 1, 2 and tau = 1 give 2 + 1/3; from there 4/3, 2/3, 5/3 and tau = 4/3: 23/9."""
    updates, last = points(1, 3, 4), torch.tensor([2.0])
    a = linear("centred-clipping", view(updates, 1, last))
    assert a == pytest.approx([1 / 3, 1 / 3, 1 / 6])
    once = settle("centred-clipping", updates, 1, memory={"last": last})
    assert moved(once).tolist() == pytest.approx([7 / 3])
    assert once.memory["last"].tolist() == pytest.approx([7 / 3])
    twice = settle("centred-clipping", updates, 1, memory={"last": last}, iterations=2)
    assert moved(twice).tolist() == pytest.approx([23 / 9])


def test_the_first_centred_clipping_begins_at_the_base():
    assert moved(settle("centred-clipping", points(1, 2, 9), 1)).tolist() == pytest.approx([5 / 3])


def test_fltrust_by_hand():
    """Cosines 0.6, 1, -1, and an update of length zero; lengths become the root's."""
    updates = points([3, 4], [1, 0], [-1, 0], [0, 0])
    c = linear("fltrust", view(updates, 1, torch.tensor([2.0, 0.0])))
    assert c == pytest.approx([0.6 / 1.6 * 2 / 5, 1 / 1.6 * 2, 0, 0])


@pytest.mark.parametrize("tiny", [1e-45, 1e-20, 1e-7])
def test_fltrust_does_not_blow_up_what_has_hardly_moved(tiny):
    """Brought to the root's length it would have a coefficient that leaves nothing of the other entries."""
    base, root = torch.tensor([0.5, 0.0]), torch.tensor([0.0, 1e-3])
    settled = settle("fltrust", points([0, 1e-3], [0, 2e-3], [0, tiny]), 1, root=root, base=base)
    assert moved(settled, base).tolist() == pytest.approx([0, 1e-3])
    assert settled.coefficients_C == pytest.approx([0.5, 0.25, 0])


@pytest.mark.parametrize("root", [[-2.0, 0.0], [0.0, 0.0]])
def test_nothing_moves_where_nobody_goes_the_roots_way(root):
    settled = settle("fltrust", points([1, 0], [2, 0]), 0, root=torch.tensor(root))
    assert moved(settled).tolist() == [0, 0]
    assert settled.coefficients_C == [0, 0]


def test_dnc_leaves_out_who_stands_out():
    """The mean is 8.25; 30 is farthest from it, then 0."""
    assert linear("dnc", view(points(0, 1, 2, 30), 1)) == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert linear("dnc", view(points(0, 1, 2, 30), 1, removed=1.5)) == pytest.approx([0, 0.5, 0.5, 0])


def test_dnc_looks_along_the_leading_direction_only():
    """The third is far away in the second coordinate, but updates differ most in the first."""
    updates = points([-9, 0], [-8, 0], [0, 6], [8, 0], [12, 0])
    assert linear("dnc", view(updates, 1))[4] == 0


def test_nearest_neighbour_mixing_by_hand():
    updates = points(0, 1, 10)
    rows = nearest(updates @ updates.T, 1)
    assert rows.tolist() == [[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]]


def test_of_equal_updates_each_is_nearest_to_itself():
    updates = points(5, 5, 5)
    assert nearest(updates @ updates.T, 2).tolist() == torch.eye(3).tolist()


def test_buckets_hold_every_client_once():
    rows = bucketing(7, 3, generator(0, "bucketing", 1))
    assert rows.shape == (3, 7)
    assert rows.sum(1).tolist() == pytest.approx([1, 1, 1])
    assert (rows > 0).sum(0).tolist() == [1] * 7
    assert sorted((rows > 0).sum(1).tolist()) == [1, 3, 3]
    assert not torch.equal(rows, bucketing(7, 3, generator(0, "bucketing", 2)))


def test_distances_are_never_negative_nor_lost_beside_huge_ones():
    updates = points([1e6, 0], [1e-6, 0], [0, 1e-6], [1e6, 0])
    distances = squared_distances(updates @ updates.T)
    assert float(distances[1, 2]) == pytest.approx(2e-12)
    assert float(distances[0, 3]) == 0
    near = points(1.0, 1.0 + 1e-9)
    assert float(squared_distances(near @ near.T).min()) >= 0


def test_idle_clients_stay_out_of_medians_while_enough_others_move():
    lengths = torch.tensor([0.0, 0.0, 0.0, 2.0**-30, 1.0, 2.0, 3.0]).double()
    assert typical(lengths, 1) == 2
    assert moving(lengths, 3).tolist() == [False] * 4 + [True] * 3
    assert typical(lengths, 2) == 2.0**-30
    assert moving(torch.zeros(3), 1).tolist() == [True] * 3
