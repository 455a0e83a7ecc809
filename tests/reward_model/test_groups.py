"""Discovery of groups from the directions of updates; partitions compared."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.randomness import generator
from hanse.reward_model.groups import (
    Groups,
    adjusted_rand,
    direction,
    discover,
    k_means,
    principal,
    silhouette,
    smoothed,
    soft,
)


def opposed(sizes, noise=0.7, seed=0, dimensions=32):
    """Directions around + and - one axis, groups of these sizes."""
    rng = generator(seed, "opposed")
    signs = np.repeat([1.0, -1.0], sizes)
    points = rng.normal(0, noise / np.sqrt(dimensions), (len(signs), dimensions))
    points[:, 0] += signs
    return np.stack([direction(point) for point in points]), (signs < 0).astype(np.int64)


def test_adjusted_rand_by_hand():
    # joint counts 1 1 / 0 2: one pair together in both; rows 1 + 1, columns 0 + 3, six pairs: expected 1
    assert adjusted_rand(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])) == pytest.approx(0.0)
    # joint counts 2 1 / 0 3: 1 + 3 pairs together; rows 3 + 3, columns 1 + 6, fifteen pairs: expected 2.8
    value = (4 - 6 * 7 / 15) / (6.5 - 6 * 7 / 15)
    first, second = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 1])
    assert adjusted_rand(first, second) == pytest.approx(value)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=20), st.permutations(range(4)))
def test_names_of_groups_do_not_matter(labels, names):
    labels = np.array(labels)
    assert adjusted_rand(labels, np.array(names)[labels]) == pytest.approx(1.0)


def test_silhouette_by_hand():
    points = np.array([[0.0], [1.0], [5.0]])
    # first: a = 1, b = 5; second: a = 1, b = 4; the last is alone
    assert silhouette(points, np.array([0, 0, 1])) == pytest.approx((0.8 + 0.75 + 0) / 3)


def test_k_means_by_hand():
    labels, centres = k_means(np.array([[0.0], [1.0], [10.0], [12.0]]), 2)
    assert sorted(centres[:, 0].tolist()) == [0.5, 11.0]
    assert labels[0] == labels[1] != labels[2] == labels[3]


def test_posteriors_of_a_point_in_the_middle_are_even():
    points, centres = np.array([[-1.2], [-0.8], [0.8], [1.2], [0.0]]), np.array([[-1.0], [1.0]])
    labels = np.array([0, 0, 1, 1, 0])
    posteriors = soft(points, labels, centres)
    assert posteriors[4] == pytest.approx([0.5, 0.5])
    assert posteriors.sum(1) == pytest.approx(np.ones(5))
    assert posteriors[0, 0] > 0.99


def test_principal_direction_of_two_opposed_groups_tells_them_apart():
    signatures, labels = opposed([6, 3])
    first = principal(signatures, 1)[:, 0]
    assert (first[labels == 0].min() > first[labels == 1].max()) or (
        first[labels == 0].max() < first[labels == 1].min()
    )


@pytest.mark.parametrize("sizes", [[10, 10], [20, 4], [22, 2]])
def test_opposed_groups_are_found(sizes):
    signatures, labels = opposed(sizes)
    groups = discover(signatures, np.ones(len(labels), dtype=bool), 4)
    assert groups.count == 2
    assert adjusted_rand(groups.labels_K, labels) == 1


@pytest.mark.parametrize("seed", range(5))
def test_no_groups_are_found_among_random_directions(seed):
    rng = generator(seed, "nobody")
    signatures = np.stack([direction(rng.normal(size=32)) for _ in range(24)])
    assert discover(signatures, np.ones(24, dtype=bool), 4).count == 1


def test_no_groups_are_found_where_all_agree():
    signatures, _ = opposed([20, 0])
    assert discover(signatures, np.ones(20, dtype=bool), 4).count == 1


def test_unseen_clients_may_belong_anywhere():
    signatures, labels = opposed([6, 6])
    seen = np.ones(12, dtype=bool)
    seen[3] = False
    signatures[3] = 0
    groups = discover(signatures, seen, 2)
    assert groups.posteriors_KC[3].tolist() == [0.5, 0.5]
    assert adjusted_rand(groups.labels_K[seen], labels[seen]) == 1


def test_too_few_clients_are_one_group():
    signatures, _ = opposed([1, 1])
    assert discover(signatures, np.ones(2, dtype=bool), 4).count == 1


def test_signatures_by_hand():
    assert direction(np.array([3.0, 4.0])).tolist() == [0.6, 0.8]
    assert direction(np.zeros(2)).tolist() == [0, 0]
    assert smoothed(None, np.array([1.0]), 0.5).tolist() == [1.0]
    assert smoothed(np.array([1.0]), np.array([0.0]), 0.75).tolist() == [0.75]


def test_given_groups():
    groups = Groups.given(np.array([1, 0, 1]))
    assert groups.labels_K.tolist() == [1, 0, 1]
    assert groups.count == 2
