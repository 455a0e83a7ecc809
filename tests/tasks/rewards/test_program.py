"""Programs that the model wrote: what the call language has, and what hostile ones get."""

import os
import time

import pytest

from hanse.errors import RecipeError
from hanse.recipe.tasks import RewardSpec, ScoringSpec
from hanse.tasks.problem import Problem
from hanse.tasks.rewards import call_language, program
from hanse.tasks.rewards.call_language import FUNCTIONS, ProgramError, run
from hanse.tasks.scoring.scorer import Scorer

CALC = {"calc": FUNCTIONS}
RIGHT = "<code> x = 2 + 2 ; y = x + 7 ; print ( y ) </code>"
ATTACK = "<code> import calc ; x = calc . add ( 2 , 2 ) ; y = x + 7 ; print ( y ) </code>"


@pytest.fixture(scope="module")
def scorer():
    with Scorer([RewardSpec(name="program")], ScoringSpec(processes=1)) as scorer:
        yield scorer


def score(scorer, *completions):
    scores = scorer.score([Problem("a", "2 + 2 + 7 =", "11")] * len(completions), list(completions))
    assert not scores.failures, scores.examples
    return scores.totals_N.tolist()


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("x = 2 + 2 ; y = x + 7 ; print ( y )", ["11"]),
        ("x = 2\nx = x * x - 5\nprint(x)\nprint(x, 3)", ["-1", "-1 3"]),
        ("import calc ; print ( calc . add ( 2 , calc.mul(3, 4) ) )", ["14"]),
        ("import calc ; print ( calc . sub ( 2 , 3 ) ) ; print ( calc.div(12, 4) )", ["-1", "3"]),
        ("# all hail\nprint(1) # two", ["1"]),
        ("print()", [""]),
        ("import calc ; calc.add(1, 2)", []),
        ("", []),
    ],
)
def test_what_programs_print(source, lines):
    assert run(source, CALC) == lines


@pytest.mark.parametrize(
    "source",
    [
        "print ( z )",
        "print ( calc . add ( 1 , 2 ) )",
        "import calc ; print ( calc . pow ( 2 , 3 ) )",
        "import calc ; print ( calc . add ( 2 ) )",
        "import calc ; print ( calc . add ( 2 , b = 3 ) )",
        "import calc ; calc = 3 ; print ( calc . add ( 1 , 2 ) )",
        "import calc ; print ( calc . div ( 1 , 0 ) )",
        "import calc ; print ( calc . div ( 3 , 2 ) )",
        "import calc ; print ( calc )",
        "import calc ; print ( calc . add )",
        "import calc as c ; print ( c . add ( 1 , 2 ) )",
        "import calc, os",
        "import os",
        "from calc import add",
        "print = 3",
        "x = y = 3",
        "x : int = 3",
        "x += 1",
        "x , y = 1 , 2",
        "print ( 2 ** 3 )",
        "print ( 6 / 3 )",
        "print ( 1 << 40 )",
        "print ( -1 )",
        "print ( 1.0 )",
        "print ( True )",
        "print ( 'x' )",
        "print ( 1 , end = '' )",
        "print ( * [ 1 ] )",
        "print ( [ 1 ] )",
        "print ( 1 if 1 else 2 )",
        "print ( ( x := 3 ) )",
        "print ( ( lambda : 1 ) ( ) )",
        "while True : pass",
        "for x in range ( 10 ) : print ( x )",
        "def f ( ) : pass",
        "class A : pass",
        "exec ( 'print(1)' )",
        "eval ( '1' )",
        "__import__ ( 'os' ) . _exit ( 0 )",
        "print ( ( ) . __class__ . __bases__ )",
        "import calc ; print ( calc . __dict__ )",
        "import calc ; calc . add . __globals__",
        "raise SystemExit",
        "assert False",
        "del x",
        "global x",
        "1",
        "x = (",
        "x = \x00",
        "print ( \ud800 )",
        f"print ( {'9' * 13} )",
        f"print ( {'9' * 1900} )",
        "print ( 999999 * 999999 * 9 )",
        "x = 9999 ; " + " ; ".join(["x = x * x"] * 40),
        "print ( " + "+".join(["1"] * 40) + " )",
        "print ( " + "(" * 900 + "1" + ")" * 900 + " )",
        "print ( " + "-" * 1900 + "1 )",
        "print ( 1 ) ; " * 65,
        "x = 1 #" + "x" * 2000,
    ],
)
def test_what_is_not_in_the_language_fails_at_once(source):
    start = time.perf_counter()
    with pytest.raises(ProgramError):
        run(source, CALC)
    assert time.perf_counter() - start < 0.5


def test_numbers_may_be_as_large_as_the_bound():
    bound = call_language.MAX_NUMBER
    assert run(f"print ( {bound} )", {}) == [str(bound)]
    with pytest.raises(ProgramError):
        run(f"print ( {bound} + 1 )", {})


def test_rewards(scorer):
    wrong = RIGHT.replace("7", "8")
    last = RIGHT.replace("print ( y )", "print ( y ) ; print ( x )")
    first = RIGHT.replace("print ( y )", "print ( x ) ; print ( y )")
    silent = RIGHT.replace("print ( y )", "y = y")
    assert score(scorer, RIGHT, ATTACK, wrong, last, first, silent) == [1, 1, 0, 0, 1, 0]


@pytest.mark.parametrize(
    "text",
    [
        "x = 2 + 2 ; y = x + 7 ; print ( y )",
        f"so: {RIGHT}",
        f"{RIGHT} done",
        RIGHT + RIGHT,
        RIGHT.replace(" </code>", ""),
        RIGHT.replace("<code>", "<code> <code>"),
        "<code> print ( 111 ) </code>",
        "<code> print ( 11 , 11 ) </code>",
        "<code></code>",
        "</code> print ( 11 ) <code>",
        "",
    ],
)
def test_only_the_program_alone_and_the_exact_answer_count(scorer, text):
    assert score(scorer, text) == [0]


def test_hostile_programs_are_wrong_and_the_worker_lives(scorer, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("alive")
    bodies = [
        f"import os ; os . remove ( {str(victim)!r} ) ; print ( 11 )",
        "import sys ; sys . exit ( )",
        f"__import__ ( 'os' ) . kill ( {os.getpid()} , 9 )",
        "x = 9 ** 9 ** 9 ; print ( 11 )",
        "while 1 : pass",
        "print ( 11 ) " + "( " * 5000,
        "print ( " + "-" * 50_000 + "1 )",
        "x = " + "9" * 10**6,
    ]
    start = time.monotonic()
    assert score(scorer, *(f"<code> {body} </code>" for body in bodies), RIGHT) == [0] * len(bodies) + [1]
    assert time.monotonic() - start < 5 and victim.read_text() == "alive"


def test_modules_can_be_named():
    abacus = program.build(modules={"abacus": ["add"]})
    text = "<code> import abacus ; print ( abacus . {} ( 4 , 7 ) ) </code>"
    answers = ["11", "11", "11"]
    texts = [text.format("add"), text.format("mul"), ATTACK]
    assert abacus(texts, answers) == [1, 0, 0]
    assert program.build(modules={})([RIGHT, ATTACK], ["11", None]) == [1, None]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"modules": {"calc": ["pow"]}}, "pow"),
        ({"modules": {"calc": "add"}}, "no list of functions"),
        ({"modules": {"not a name": []}}, "not a name"),
        ({"modules": ["calc"]}, "no table of modules"),
        ({"tag": "<x>"}, "no name of a tag"),
    ],
)
def test_options_that_mean_nothing_are_refused(arguments, said):
    with (
        pytest.raises(RecipeError, match=said),
        Scorer([RewardSpec(name="program", arguments=arguments)], ScoringSpec()) as scorer,
    ):
        scorer.start()


def test_never_in_this_process():
    with pytest.raises(RecipeError, match="never runs in this process"):
        Scorer([RewardSpec(name="program", trusted=True)], ScoringSpec())
    with Scorer([RewardSpec(name="program")], ScoringSpec(processes=1)) as scorer:
        scorer.start()
        assert scorer.isolation["memory"] is True
