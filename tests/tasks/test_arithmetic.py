import time
import zlib
from collections import Counter

import pytest

from hanse.recipe.tasks import ArithmeticTask
from hanse.tasks.arithmetic import CHARSET, PROBLEMS_PER_LEVEL, build_arithmetic
from hanse.tasks.problem import Split

SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")


@pytest.fixture(scope="module")
def everything():
    task = build_arithmetic(ArithmeticTask())
    return [(split, problem) for split in SPLITS for problem in task.problems(split)]


def carries(a: int, b: int) -> list[int]:
    """Positions (0 = units) that carry, by hand."""
    positions, carry = [], 0
    for position in range(4):
        carry = int(a // 10**position % 10 + b // 10**position % 10 + carry > 9)
        if carry:
            positions.append(position)
    return positions


def expected_level(a: int, b: int) -> int | None:
    where = carries(a, b)
    if max(a, b) <= 99:
        return {(): 1, (0,): 2}.get(tuple(where))
    if min(a, b) >= 100:
        return {0: 3, 1: 4}.get(len(where), 5)
    return None


def test_levels_are_as_defined(everything):
    for _, problem in everything:
        assert expected_level(*problem.metadata["operands"]) == problem.metadata["level"]


def test_prompt_and_answer_by_hand():
    first = {p.id: p for p in build_arithmetic(ArithmeticTask()).problems("train")}
    last = {
        p.id: p for p in build_arithmetic(ArithmeticTask(order="most-significant-first")).problems("train")
    }
    problem = next(p for p in first.values() if p.metadata["level"] == 2)
    a, b = problem.metadata["operands"]
    assert problem.id == f"{a}+{b}"
    assert problem.prompt == f"0{a:02d}+0{b:02d}="
    assert problem.answer == f"00{a + b}"[::-1]
    assert last[problem.id].answer == f"00{a + b}"


def test_sizes(everything):
    counts = Counter(problem.metadata["level"] for _, problem in everything)
    assert counts == {1: 55 * 55, 2: 45 * 45, 3: 4000, 4: 4000, 5: 4000}
    assert PROBLEMS_PER_LEVEL == 4000


def test_split_is_by_hash_of_sorted_operands(everything):
    for split, problem in everything:
        a, b = sorted(problem.metadata["operands"])
        position = zlib.crc32(f"{a}+{b}".encode()) / 2**32
        assert split == ("held_out" if position < 0.2 else "validation" if position < 0.3 else "train")


def test_mirror_images_are_never_in_two_splits(everything):
    by_pair = {}
    for split, problem in everything:
        assert by_pair.setdefault(frozenset(problem.metadata["operands"]), split) == split


def test_every_level_is_in_every_split(everything):
    assert {(split, p.metadata["level"]) for split, p in everything} == {
        (split, level) for split in SPLITS for level in range(1, 6)
    }


def test_ids_are_unique_and_characters_known(everything):
    assert len({problem.id for _, problem in everything}) == len(everything)
    assert set("".join(p.prompt + p.answer for _, p in everything)) == set(CHARSET)


def test_fewer_levels_keep_their_problems():
    two, five = build_arithmetic(ArithmeticTask(levels=2)), build_arithmetic(ArithmeticTask())
    assert two.problems("train") == tuple(p for p in five.problems("train") if p.metadata["level"] <= 2)


def test_large_levels_keep_the_same_sample_forever(everything):
    """Ids enter run folders and published splits: a change here is a change of the task."""
    ids = "\n".join(problem.id for _, problem in everything)
    assert zlib.crc32(ids.encode()) == 674354876


def test_fast():
    seconds = []
    for _ in range(2):
        start = time.process_time()
        build_arithmetic(ArithmeticTask())
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.5


def test_training_problems_are_cut_to_the_count_of_their_level_and_nothing_else_is():
    whole = build_arithmetic(ArithmeticTask(levels=2))
    cut = build_arithmetic(ArithmeticTask(levels=2, train_counts=[5, 10**6]))
    levels = [p.metadata["level"] for p in cut.problems("train")]
    assert levels.count(1) == 5
    assert levels.count(2) == [p.metadata["level"] for p in whole.problems("train")].count(2)
    assert {p.id for p in cut.problems("train")} <= {p.id for p in whole.problems("train")}
    assert cut.problems("held_out") == whole.problems("held_out")
