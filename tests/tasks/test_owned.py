"""The server's own problems: nobody else has them, nor their mirror images."""

from __future__ import annotations

from collections import Counter

from hanse.recipe.tasks import ArithmeticTask
from hanse.tasks.arithmetic import build_arithmetic
from hanse.tasks.owned import key_of, server_owned, without
from hanse.tasks.problem import Problem


def test_the_same_sums_whatever_order_and_seed_and_as_many_of_each_level():
    problems = build_arithmetic(ArithmeticTask(levels=3)).problems("train")
    owned = server_owned(problems, 31, "level")
    assert Counter(p.metadata["level"] for p in owned) == {1: 11, 2: 10, 3: 10}
    assert len({key_of(p) for p in owned}) == 31
    assert {key_of(p) for p in server_owned(problems[::-1], 31, "level")} == {key_of(p) for p in owned}


def test_a_mirrored_sum_is_the_same_sum():
    a, b, c = (Problem(f"{x}+{y}", "", "", {"operands": [x, y]}) for x, y in ((1, 2), (2, 1), (1, 3)))
    assert without([a, b, c], [a]) == [c]
    assert server_owned([a, b, c], 9, "level") == [a, c]


def test_without_operands_the_id_counts():
    rows = [Problem(str(i), "q") for i in range(5)]
    owned = server_owned(rows, 2, "level")
    assert len(owned) == 2
    assert without(rows, owned) == [row for row in rows if row not in owned]
