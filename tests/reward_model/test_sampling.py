"""Drawing clients by group: expectations, quotas, and the draw that FedAvg makes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.randomness import generator
from hanse.reward_model.groups import Groups
from hanse.reward_model.sampling import chances, draw_clients


def test_chances_by_hand():
    posteriors = Groups.given(np.array([0, 0, 0, 1])).posteriors_KC
    assert chances(posteriors) == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])


def test_chances_of_soft_posteriors_by_hand():
    posteriors = np.array([[0.75, 0.25], [0.25, 0.75], [1.0, 0.0]])
    # columns sum to 2 and 1
    expected = [(0.375 + 0.25) / 2, (0.125 + 0.75) / 2, 0.25]
    assert chances(posteriors) == pytest.approx(expected)


def test_one_of_a_small_group_counts_as_much_as_all_of_a_large_one():
    posteriors = Groups.given(np.array([0, 0, 0, 0, 0, 0, 1])).posteriors_KC
    drawn = draw_clients(posteriors, 6, generator(0, "test"))
    assert drawn[6] == 3
    assert sum(drawn.values()) == 6
    assert all(times == 1 for client, times in drawn.items() if client != 6)


def test_one_group_is_a_draw_without_repetition():
    drawn = draw_clients(Groups.one(10).posteriors_KC, 4, generator(3, "test"))
    assert len(drawn) == 4
    assert set(drawn.values()) == {1}


def test_full_participation_is_everybody():
    assert draw_clients(Groups.one(5).posteriors_KC, 5, generator(0)) == dict.fromkeys(range(5), 1)


def test_empty_groups_have_no_slots():
    posteriors = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert draw_clients(posteriors, 2, generator(0)) == {0: 1, 1: 1}


def test_means_over_many_draws_are_the_chances():
    posteriors = np.array([[0.9, 0.1], [0.8, 0.2], [0.1, 0.9], [1.0, 0.0], [0.7, 0.3]])
    total = np.zeros(5)
    for i in range(4000):
        for client, times in draw_clients(posteriors, 3, generator(i, "many")).items():
            total[client] += times
    assert total / 4000 / 3 == pytest.approx(chances(posteriors), abs=0.02)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(1, 30), st.integers(0, 99))
def test_slots_are_dealt_whole(labels, count, seed):
    groups = Groups.given(np.array(labels))
    drawn = draw_clients(groups.posteriors_KC, count, generator(seed))
    assert sum(drawn.values()) == count
    alive = len(set(labels))
    for label in set(labels):
        slots = sum(times for k, times in drawn.items() if labels[k] == label)
        assert count // alive <= slots <= -(-count // alive)
        size = labels.count(label)
        assert all(
            slots // size <= drawn.get(k, 0) <= -(-slots // size)
            for k, one in enumerate(labels)
            if one == label
        )
