from itertools import combinations

import pytest

from hanse.privacy.secure.graph import neighbours, shares_needed


def test_few_clients_are_all_neighbours():
    assert neighbours([5, 2, 9], None, 0) == {5: (2, 9), 2: (5, 9), 9: (2, 5)}
    assert all(len(n) == 31 - 1 for n in neighbours(range(31), None, 0).values())


@pytest.mark.parametrize(("clients", "degree"), [(6, 4), (40, 30), (100, 6)])
def test_a_ring_with_chords_is_regular_and_mutual(clients, degree):
    graph = neighbours(range(clients), degree, "test", 1)
    assert all(len(set(around)) == degree and k not in around for k, around in graph.items())
    assert all(k in graph[v] for k, around in graph.items() for v in around)
    assert graph != neighbours(range(clients), degree, "test", 2)


def test_shares_needed_by_hand():
    assert [shares_needed(2 / 3, n) for n in (3, 4, 5, 6, 9, 31)] == [2, 3, 4, 4, 6, 21]
    assert [shares_needed(0.51, n) for n in (3, 4, 5, 7)] == [2, 3, 4, 5]
    assert shares_needed(1.0, 7) == 7


@pytest.mark.parametrize("degree", [4, 6])
def test_where_everybody_keeps_enough_neighbours_the_living_are_connected(degree):
    clients = 11
    graph = neighbours(range(clients), degree, 0)
    needed = shares_needed(0.51, degree + 1)
    seen = set()
    for count in range(3, clients):
        for living in map(set, combinations(range(clients), count)):
            if all(len(living & set(graph[k])) + 1 >= needed for k in living):
                seen.add(count)
                assert _connected(graph, living)
    assert min(seen) < clients - 1


def _connected(graph, living) -> bool:
    reached, edge = set(), {min(living)}
    while edge:
        reached |= edge
        edge = {v for k in edge for v in graph[k] if v in living} - reached
    return reached == living
