import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.tasks.problem import Problem
from hanse.tasks.rewards.batch import Failure
from hanse.tasks.scoring.batches import groups_of
from hanse.tasks.scoring.pieces import Cut, Outcome, Piece, settle


def ranges(*bounds):
    return [range(a, b) for a, b in bounds]


def test_groups_are_runs_of_one_problem():
    problems = [Problem(name, "q") for name in "aabcca"]
    assert groups_of(problems) == ranges((0, 2), (2, 3), (3, 5), (5, 6))
    assert groups_of([]) == []


def test_two_groups_of_one_problem_that_are_neighbours_stay_two():
    problems = [Problem(name, "q") for name in "aaaabb"]
    assert groups_of(problems, 2) == ranges((0, 2), (2, 4), (4, 6))
    with pytest.raises(ValueError, match="6 completions are not in groups of 4"):
        groups_of(problems, 4)


def test_cuts_by_hand():
    groups = ranges((0, 4), (4, 8), (8, 10), (10, 20))
    assert Cut(8, True).pieces(groups) == ranges((0, 8), (8, 10), (10, 20))
    assert Cut(8, False).pieces(groups) == ranges((0, 8), (8, 16), (16, 20))
    assert Cut(8, True).smaller(range(0, 8), groups) == groups[:2]
    assert Cut(8, True).smaller(range(8, 10), groups) == ranges((8, 9), (9, 10))
    assert Cut(8, False).smaller(range(0, 8), groups) == [range(i, i + 1) for i in range(8)]
    assert Cut(8, True).smaller(range(3, 4), groups) == []


@given(sizes=st.lists(st.integers(1, 9), max_size=12), rows=st.integers(1, 12), whole=st.booleans())
def test_pieces_cover_all_rows_once_and_in_order(sizes, rows, whole):
    groups, start = [], 0
    for size in sizes:
        groups.append(range(start, start + size))
        start += size
    cut = Cut(rows, whole)
    pieces = cut.pieces(groups)
    assert [i for piece in pieces for i in piece] == list(range(start))
    if whole:
        starts = {group.start for group in groups}
        assert all(piece.start in starts for piece in pieces)
    else:
        assert all(len(piece) <= rows for piece in pieces)
    for piece in pieces:
        smaller = cut.smaller(piece, groups)
        assert not smaller or [i for part in smaller for i in part] == list(piece)


@given(bad=st.sets(st.integers(0, 19)), rows=st.integers(1, 8), whole=st.booleans())
def test_settling_fails_exactly_the_guilty_rows(bad, rows, whole):
    groups, cut = [range(i, i + 4) for i in range(0, 20, 4)], Cut(rows, whole)
    outcome = Outcome([None] * 20)

    def run(pieces):
        return [Failure("x", "") if bad & set(p.rows) else [float(i) for i in p.rows] for p in pieces]

    pieces = [Piece(0, piece) for piece in cut.pieces(groups)]
    settle(pieces, run, lambda piece, failure: cut.smaller(piece.rows, groups), [outcome])
    assert set(outcome.failures) == bad
    assert outcome.values == [None if i in bad else float(i) for i in range(20)]
