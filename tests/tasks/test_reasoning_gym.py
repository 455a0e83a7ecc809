import json

import pytest

from hanse.errors import RecipeError
from hanse.recipe.tasks import ReasoningGymTask, ScoringSpec
from hanse.tasks.build import build_task
from hanse.tasks.packing import pack, unpack
from hanse.tasks.problem import split_of
from hanse.tasks.reasoning_gym import _error, _problems
from hanse.tasks.reasoning_gym_entries import entries
from hanse.tasks.scoring.scorer import Scorer

SPLITS = ("train", "validation", "held_out")


def build(generator, **fields):
    return build_task(ReasoningGymTask(type="reasoning-gym", generator=generator, **fields))


def everything(task):
    return [(split, p) for split in SPLITS for p in task.problems(split)]


@pytest.fixture(scope="module")
def sums():
    levels = [{"min_digits": 1, "max_digits": 2}, {"min_digits": 4, "max_digits": 4}]
    return build("basic_arithmetic", size=61, levels=levels, arguments={"seed": 7}, suffix=" Reply briefly.")


def test_levels_share_the_size(sums):
    levels = [p.metadata["level"] for _, p in everything(sums)]
    assert (levels.count(1), levels.count(2)) == (31, 30)
    configurations = {p.metadata["level"]: p.metadata["configuration"] for _, p in everything(sums)}
    assert configurations[1] == {"min_digits": 1, "max_digits": 2, "size": 31, "seed": 7}
    assert configurations[2]["seed"] == 8


def test_split_is_by_hash_of_the_question(sums):
    for split, problem in everything(sums):
        assert split == split_of(problem.metadata["entry"]["question"], 0.1, 0.1)
        assert problem.prompt == [
            {"role": "user", "content": problem.metadata["entry"]["question"] + " Reply briefly."}
        ]


def test_problems_are_json_and_scored_by_the_generator(sums):
    problems = [p for _, p in everything(sums)][:6]
    assert json.loads(json.dumps([p.metadata for p in problems])) == [p.metadata for p in problems]
    with Scorer(sums.default_rewards, ScoringSpec()) as scorer:
        right = scorer.score(problems, [f" {p.answer} " for p in problems])
        wrong = scorer.score(problems, ["no idea"] * 6)
    assert right.totals_N.tolist() == [1.0] * 6
    assert max(wrong.totals_N) < 0.2 and not wrong.failures


def test_tuples_in_entries_survive_and_the_tag_is_read():
    """A plain JSON round trip turns arc_agi's tuples into lists, and the right answer then scores 0.05."""
    task = build("rearc", size=12, answer_tag="answer", held_out_fraction=0.4)
    problems = [p for _, p in everything(task)][:3]
    with Scorer(task.default_rewards, ScoringSpec()) as scorer:
        scores = scorer.score(
            [*problems, problems[0]],
            [f"Well. <answer>{p.answer}</answer>" for p in problems] + [str(problems[0].answer)],
        )
    assert scores.totals_N.tolist()[:3] == [1.0] * 3
    assert scores.totals_N[3] < 0.1


def test_propositional_logic_has_no_reference_answer():
    (made,) = entries("propositional_logic", [{"size": 3, "seed": 0}])["entries"]
    assert [entry["answer"] for entry in made] == [None] * 3
    spec = ReasoningGymTask(type="reasoning-gym", generator="propositional_logic", size=3)
    assert {p.answer for _, p in _problems(spec, [{"size": 3, "seed": 0}], [made])} == {None}


def test_arguments_that_the_generator_does_not_know():
    reply = entries("word_ladder", [{"size": 3, "seed": 0, "colour": 1}])
    error = _error(ReasoningGymTask(type="reasoning-gym", generator="word_ladder"), reply)
    assert error.field == "task.arguments" and "colour" in error.problem


def test_generators_that_iterate_over_sets_give_the_same_problems_everywhere():
    """Six of reasoning-gym's generators depend on Python's hash seed; ours is fixed in a child."""
    one, two = (build("word_ladder", size=20, held_out_fraction=0.3) for _ in range(2))
    assert everything(one) == everything(two)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"generator": "word_lader"}, "task.generator", "word_ladder"),
        ({"generator": "word_ladder", "levels": [{"min_word_length": 9}]}, "task.levels", "refuses"),
        ({"generator": "word_ladder", "system_prompt": "S", "chat": False}, "task.system_prompt", "chat"),
    ],
)
def test_refusals(fields, field, words):
    with pytest.raises(RecipeError, match=words) as caught:
        build(size=4, **fields)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "value", [(1, (2, "x")), {1: (2,)}, {"a": [(), {}]}, [None, True, 1.5], {(1, 2): "k"}]
)
def test_packing_is_lossless_through_json(value):
    assert unpack(json.loads(json.dumps(pack(value)))) == value
