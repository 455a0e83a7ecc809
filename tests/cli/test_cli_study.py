"""`hanse study`: what it refuses before anything runs, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hanse.cli import app

GOOD = """
name = "s"
recipe = "base.toml"
baseline = "a"
seeds = [10, 11]
[[arms]]
name = "a"
[[arms]]
name = "b"
set = { "federation.weighting" = "uniform" }
"""
TUNED = GOOD.replace(
    '"uniform" }', '"uniform" }\ntune = { "grpo.lr" = [1e-3, 1e-4], "grpo.clip_low" = [0.1, 0.2] }'
).replace("seeds = [10, 11]", "seeds = [10, 11]\ndevelopment_seeds = [0]")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "base.toml").write_text("rounds = 2\n")
    return tmp_path / "s.toml"


def hanse_cli(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, " ".join(result.output.split())


REFUSED = {
    "unknown key of a recipe": (
        GOOD.replace("federation.weighting", "federation.weigting"),
        ["arms.b", "weigting"],
    ),
    "wrong value of a recipe": (
        GOOD.replace('"uniform"', '"unifrom"'),
        ["arms.b: federation.weighting", "unifrom"],
    ),
    "unknown key of an arm": (GOOD.replace("set =", "sett ="), ["arms.b.sett", "Did you mean set?"]),
    "unknown key": (GOOD.replace("seeds", "seed"), ["seed", "seeds"]),
    "no seeds": (GOOD.replace("[10, 11]", "[]"), ["seeds"]),
    "seed twice": (GOOD.replace("11", "10"), ["seeds: 10 appears more than once"]),
    "seed below zero": (GOOD.replace("11", "-1"), ["seeds: -1 cannot be a seed"]),
    "arm twice": (GOOD.replace('"b"', '"a"'), ["arms: a appears more than once"]),
    "arm that leaves the folder": (GOOD.replace('"b"', '"../b"'), ["arms.../b.name", "folder"]),
    "baseline": (GOOD.replace('baseline = "a"', 'baseline = "c"'), ["baseline", '"c" is not an arm', "a, b"]),
    "contrast": (
        GOOD + '[[contrasts]]\nname = "x"\narms = ["b", "c"]\n',
        ["contrasts.x", '"c" is not an arm'],
    ),
    "contrast of one": (GOOD + '[[contrasts]]\nname = "x"\narms = ["b"]\n', ["contrasts.x.arms"]),
    "decided": (GOOD.replace("federation.weighting", "seed").replace('"uniform"', "3"), ["arms.b: seed"]),
    "tuning without seeds": (TUNED.replace("development_seeds = [0]", ""), ["development_seeds", "arm b"]),
    "tuning on reported seeds": (TUNED.replace("[0]", "[0, 11]"), ["development_seeds: 11"]),
    "tuning without a list": (TUNED.replace("[1e-3, 1e-4]", "1e-3"), ["arms.b.tune: grpo.lr"]),
    "tuning with a wrong value": (TUNED.replace("1e-4", "-1"), ["arms.b: grpo.lr"]),
    "unequal trials": (
        TUNED.replace('name = "a"', 'name = "a"\ntune = { "grpo.lr" = [1e-3, 1e-4] }'),
        ["same number of trials: a has 2, b has 4"],
    ),
    "not TOML": (GOOD + "[[", ["invalid TOML"]),
    "no recipe": (GOOD.replace("base.toml", "bas.toml"), ["bas.toml", "Did you mean"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_anything_runs(study: Path, tmp_path: Path, case: str) -> None:
    text, expected = REFUSED[case]
    study.write_text(text)
    code, output = hanse_cli("study", study, "--out", tmp_path / "out")
    assert code == 2, output
    assert "Traceback" not in output
    for words in expected:
        assert words in output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--only", "c"], '--only: "c" is not an arm'),
        (["--set", "seed=3"], "--set: seed"),
        (["--set", "grpo.lr=1"], "--set: grpo.lr is what arm b tunes"),
        (["--set", "grpo.lrr=1"], "grpo.lrr"),
    ],
)
def test_refused_options(study: Path, tmp_path: Path, options: list[str], words: str) -> None:
    study.write_text(TUNED)
    code, output = hanse_cli("study", study, "--out", tmp_path / "out", *options)
    assert code == 2, output
    assert words in output


def test_a_study_that_is_not_there(tmp_path: Path) -> None:
    code, output = hanse_cli("study", tmp_path / "none.toml")
    assert code == 2
    assert "there is no such file" in output


def test_a_recipe_is_not_a_study(study: Path) -> None:
    base = study.parent / "base.toml"
    code, output = hanse_cli("study", base)
    assert code == 2
    assert f"this is a recipe, not a study. Train it with `hanse train {base}`" in output


def test_starts_are_seeds_of_the_tiny_policy_only(study: Path) -> None:
    study.write_text(GOOD.replace("seeds = [10, 11]", "seeds = [10]\nstarts = [0, 1]"))
    (study.parent / "base.toml").write_text(
        '[policy]\ntype = "hf"\npath = "x"\n[task]\ntype = "jsonl"\npath = "p"\n'
    )
    code, output = hanse_cli("study", study)
    assert code == 2
    assert "policy.seed" in output


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist. Give the folder of a run (runs/NAME-001) or of a study"),
        (lambda path: path.mkdir(), "no run (it has no recipe.toml) and no study (no study.json)"),
        (lambda path: (path.mkdir(), (path / "study.toml").touch()), "without results yet"),
        (lambda path: path.touch(), "is a file, not a folder"),
    ],
)
def test_report_says_what_it_needs(tmp_path: Path, make: Callable[[Path], object], words: str) -> None:
    make(tmp_path / "s")
    code, output = hanse_cli("report", tmp_path / "s")
    assert code == 6
    assert words in output


def test_report_tells_a_damaged_study(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    code, output = hanse_cli("report", tmp_path)
    assert code == 6
    assert "run `hanse study` again" in output
