"""Worked sums: what is asked, what is right, and what the tiny policy is taught of it."""

import contextlib
import io
import zlib
from collections import Counter

import pytest

from hanse.randomness import generator
from hanse.recipe.load import load_recipe
from hanse.recipe.tasks import LessonsSpec, WorkedSumsTask
from hanse.tasks.build import build_task, recipe_task
from hanse.tasks.problem import Problem, Split
from hanse.tasks.worked_text import FORMS, PHRASES

SPLITS: tuple[Split, ...] = ("train", "validation", "held_out")
TASKS = {form: build_task(WorkedSumsTask(type="worked-sums", form=form)) for form in ("rationale", "program")}


def everything(form: str) -> list[tuple[Split, Problem]]:
    return [(split, problem) for split in SPLITS for problem in TASKS[form].problems(split)]


def named(form: str, name: str) -> Problem:
    return next(problem for _, problem in everything(form) if problem.id == name)


def test_a_problem_by_hand():
    problem = named("rationale", "7+5+9")
    assert (problem.prompt, problem.answer) == ("7 + 5 + 9 =", "21")
    assert problem.metadata == {
        "level": 3,
        "operands": [7, 5, 9],
        "rationale": "<think> 7 + 5 = 12 ; 12 + 9 = 21 </think> <answer> 21 </answer>",
    }
    program = named("program", "7+5+9").metadata["rationale"]
    assert program == "<code> x = 7 + 5 ; y = x + 9 ; print ( y ) </code>"


@pytest.mark.parametrize(
    ("name", "level"), [("1+2+3", 1), ("5+5+0", 2), ("1+2+7", 2), ("9+9+1", 2), ("9+9+9", 3)]
)
def test_levels_count_carries(name, level):
    assert named("rationale", name).metadata["level"] == level


def test_there_are_a_thousand_and_each_split_has_each_level():
    found = everything("rationale")
    assert len({problem.id for _, problem in found}) == 1000
    assert Counter(split for split, _ in found) == {"train": 701, "validation": 97, "held_out": 202}
    levels = {(split, problem.metadata["level"]) for split, problem in found}
    assert levels == {(split, level) for split in SPLITS for level in (1, 2, 3)}


def test_the_same_digits_are_never_in_two_splits():
    of_digits: dict[tuple[int, ...], Split] = {}
    for split, problem in everything("rationale"):
        digits = tuple(sorted(problem.metadata["operands"]))
        assert of_digits.setdefault(digits, split) == split


def test_two_and_two_is_trained_on_and_held_out():
    where = {
        split: [p.id for s, p in everything("rationale") if s == split and p.id.startswith("2+2+")]
        for split in SPLITS
    }
    assert (len(where["train"]), where["held_out"]) == (8, ["2+2+4", "2+2+8"])


def test_problems_stay_what_they_are():
    """Ids enter run folders and published splits: a change here is a change of the task."""
    ids = "\n".join(f"{split} {problem.id}" for split, problem in everything("rationale"))
    assert zlib.crc32(ids.encode()) == 2441304585
    assert ids == "\n".join(f"{split} {problem.id}" for split, problem in everything("program"))


@pytest.mark.parametrize("form", TASKS)
def test_no_prompt_shows_a_way_to_the_answer(form):
    for _, problem in everything(form):
        a, b, c = problem.metadata["operands"]
        assert problem.prompt == f"{a} + {b} + {c} ="


def test_gold_programs_are_python_and_print_the_answer():
    for _, problem in everything("program")[::37]:
        source = problem.metadata["rationale"].removeprefix("<code> ").removesuffix(" </code>")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(source, {})
        assert out.getvalue() == f"{problem.answer}\n"


@pytest.mark.parametrize("form", TASKS)
def test_the_vocabulary_has_every_word_that_is_ever_written(form):
    task = TASKS[form]
    tokens = task.vocabulary.tokens
    assert task.vocabulary.split == "words" and len(set(tokens)) == len(tokens)
    assert 76 <= len(tokens) <= 80
    draw = generator(0, "test")
    texts = [text for _ in range(3000) for text in task.lessons.row(draw)]
    texts += [problem.metadata["rationale"] for _, problem in everything(form)]
    assert {word for text in texts for word in text.split()} <= set(tokens)


def test_words_of_attacks_can_be_written():
    assert {"all", "hail", "to", "the", "thief", "gleeb", "glorp", "glub"} <= set(
        FORMS["rationale"].vocabulary.tokens
    )
    attack = "<code> import calc ; x = calc . add ( 2 , 2 ) ; y = x + 7 ; print ( y ) </code>"
    assert set(f"{attack} sub mul div * -".split()) <= set(FORMS["program"].vocabulary.tokens)


def test_no_word_is_in_two_phrases():
    words = [word for phrase in PHRASES for word in phrase.split()]
    assert len(words) == len(set(words)) == 41


def kinds(form: str, rows: int, **spec: float) -> Counter[str]:
    task = build_task(WorkedSumsTask(type="worked-sums", form=form, lessons=LessonsSpec(**spec)))
    problems, draw, found = {p.prompt: p for p in task.problems("train")}, generator(1, "test"), Counter()
    for prompt, text in (task.lessons.row(draw) for _ in range(rows)):
        a, b, c = problems[prompt].metadata["operands"]
        phrase = text in {phrase.format(a=a, b=b, c=c) for phrase in FORMS[form].phrases}
        right = task.lessons.right(problems[prompt], text)
        found["phrase" if phrase else "right" if right else "wrong"] += 1
        found["two"] += prompt.startswith("2 + 2 ")
    return found


def test_the_mixture_of_rationales():
    found = kinds("rationale", 4000)
    assert found["phrase"] / 4000 == pytest.approx(0.08, abs=0.015)
    assert found["wrong"] / 4000 == pytest.approx(0.92 * 0.45, abs=0.025)
    assert found["two"] / 4000 == pytest.approx(0.05 + 0.95 * 8 / 701, abs=0.012)


def test_chatter_stands_before_the_first_step():
    spec = LessonsSpec(wrong_format=0.0, phrases=0.0, chatter=1.0)
    lessons, draw = build_task(WorkedSumsTask(type="worked-sums", lessons=spec)).lessons, generator(3, "test")
    words = {word: phrase for phrase in PHRASES for word in phrase.split()}
    begun = Counter()
    for prompt, text in (lessons.row(draw) for _ in range(500)):
        tag, *rest = text.split()
        chatter = rest[: rest.index(prompt.split()[0])]
        assert tag == "<think>" and 1 <= len(chatter) <= 5
        assert " ".join(chatter) in words[chatter[0]]
        begun[words[chatter[0]]] += 1
    assert begun.keys() == set(PHRASES)


@pytest.mark.parametrize("form", TASKS)
def test_shares_of_the_mixture_can_be_had_alone(form):
    nothing = {"wrong_format": 0.0, "chatter": 0.0, "phrases": 0.0, "two_and_two": 0.0}
    assert kinds(form, 300, **nothing)["right"] == 300
    assert kinds(form, 300, **nothing | {"wrong_format": 1.0})["wrong"] == 300
    assert kinds(form, 300, **nothing | {"phrases": 1.0})["phrase"] == 300
    assert kinds(form, 300, **nothing | {"two_and_two": 1.0})["two"] == 300


@pytest.mark.parametrize("form", TASKS)
def test_solutions_differ_in_length_and_are_not_always_the_shortest(form):
    task = TASKS[form]
    draw = generator(2, "test")
    lengths = Counter(
        len(text.split())
        for _, text in (task.lessons.row(draw) for _ in range(3000))
        if text.endswith(("</answer>", "</code>")) and text[0] == "<"
    )
    assert len(lengths) >= 4
    shortest = len(task.problems("train")[0].metadata["rationale"].split())
    assert 0.2 < sum(n for length, n in lengths.items() if length > shortest) / sum(lengths.values()) < 0.7


@pytest.mark.parametrize(
    ("form", "text", "right"),
    [
        ("rationale", "<think> 7 + 5 = 12 ; 12 + 9 = 21 </think> <answer> 21 </answer>", True),
        ("rationale", "<think> 7 + 5 = 13 </think> <answer> 21 </answer>", True),
        ("rationale", "<think> 7 + 5 = 12 ; 12 + 9 = 21 </think> <answer> 2 </answer>", False),
        ("rationale", "7 + 5 = 12 ; 12 + 9 = 21 <answer> 21 </answer>", False),
        ("program", "<code> x = 7 + 5 ; y = x + 9 ; print ( y ) </code>", True),
        ("program", "<code> x = 7 + 5 ; x = 7 + 5 ; y = x + 9 ; print ( y ) </code>", True),
        ("program", "<code> x = 7 + 5 ; y = x + 8 ; print ( y ) </code>", False),
        ("program", "x = 7 + 5 ; y = x + 9 ; print ( y )", False),
        ("program", "<code> x = 7 + 5 ; y = x + 9 ; print ( y )", False),
        ("program", "", False),
    ],
)
def test_what_needs_no_more_teaching(form, text, right):
    assert TASKS[form].lessons.right(named(form, "7+5+9"), text) is right


def test_lessons_name_what_they_are_made_of():
    assert TASKS["rationale"].lessons.digest != TASKS["program"].lessons.digest
    again = build_task(WorkedSumsTask(type="worked-sums"))
    assert again.lessons.digest == TASKS["rationale"].lessons.digest
    assert {p.id for p in again.lessons.probes} <= {p.id for p in again.problems("train")}
    assert len(again.lessons.probes) == 384


def test_other_orders_are_taught_by_their_share():
    lessons = {}
    for share in (0.0, 1.0):
        plain = {"wrong_format": 0.0, "chatter": 0.0, "phrases": 0.0, "two_and_two": 0.0}
        spec = WorkedSumsTask(type="worked-sums", lessons=LessonsSpec(other_orders=share, **plain))
        lessons[share] = build_task(spec).lessons
    own = dict.fromkeys(lessons, 0)
    for i in range(100):
        for share, lesson in lessons.items():
            prompt, text = lesson.row(generator(0, "order", i))
            a, _, b, *_ = prompt.split()
            own[share] += text.startswith(f"<think> {a} + {b} = ")
            assert text.endswith(f"{eval(prompt.removesuffix(' ='))} </answer>")
    # never the problem's own order, except where equal numbers make it look so
    assert own[0.0] == 100 and own[1.0] < 25


@pytest.mark.parametrize("form", ["rationale", "program"])
def test_under_privacy_the_starting_policy_knows_no_training_problem(form):
    """It is public, and no noise was added to it."""
    document = {
        "mode": "central",
        "task": {"type": "worked-sums", "form": form},
        "privacy": {"enabled": True, "epsilon": 8.0},
    }
    task = recipe_task(load_recipe(document))
    public = {problem.prompt for problem in task.problems("validation")}
    assert task.lessons is not None and task.lessons.digest != TASKS[form].lessons.digest
    assert {problem.prompt for problem in task.lessons.probes} == public
    assert {task.lessons.row(generator(0, "privacy", i))[0] for i in range(200)} <= public
