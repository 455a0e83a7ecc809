"""The documents of the Flower runtime: their Python runs, their recipes load, their commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict
from typer.main import get_command

from hanse.cli import app
from hanse.recipe.load import load_recipe
from hanse.runtime.flower.local_grid import LocalGrid
from tests.recipe.refusal import assert_refused

ROOT = Path(__file__).parents[3]
FILES = ("docs/flower.md", "docs/deploy.md")


def blocks(file: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(), re.DOTALL)


def test_python_runs_as_printed():
    found = blocks("docs/flower.md", "python")
    assert len(found) == 2
    for code in found:
        exec(compile(code, "document", "exec"), {})


def test_the_options_are_those_of_a_recipe():
    (text,) = blocks("docs/flower.md", "toml")
    runtime = {
        key: float(value) if "." in value else int(value)
        for key, value in re.findall(r"^(\w+) = ([\d.]+)", text, re.MULTILINE)
    }
    options = ["deadline_s", "over_select", "patience", "quorum", "stale_rounds", "staleness"]
    assert sorted(runtime) == options
    late = {"late": "weigh"} if 'late = "weigh"' in text else {}
    document = {"runtime": {"type": "flower", **late, **runtime}, "federation": {"participation": 0.6}}
    assert load_recipe(document).runtime.over_select == 2
    assert_refused(document | {"federation": {}}, "runtime.over_select", "over the 5", "over_select = 0")


@pytest.mark.parametrize("file", FILES)
def test_commands_have_the_verbs_and_options_that_are_named(file):
    verbs = get_command(app).commands
    lines = re.findall(r"^\$ hanse (\w+)(.*)$", (ROOT / file).read_text(), re.MULTILINE)
    for verb, rest in lines:
        known = {name for option in verbs[verb].params for name in option.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known, (verb, rest)
        for path in re.findall(r"examples/\S+", rest):
            assert (ROOT / path).is_file()


def test_the_hospitals_recipe_loads():
    recipe = load_recipe(ROOT / "examples" / "hospitals" / "recipe.toml")
    assert recipe.partition.own_names == ["north", "south", "harbour"]
    assert all((ROOT / "examples" / "hospitals" / f"{n}.jsonl").is_file() for n in recipe.partition.own_names)


@pytest.mark.parametrize("strategy", ["reward-weighted", "robust"])
def test_the_example_app_runs(strategy, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "flower-app"))
    from town import client_app, server_app

    config = {"rounds": 2, "local-steps": 1, "strategy": strategy, "seed": 0}
    grid = LocalGrid([client_app.app] * 3)
    for context in grid.contexts.values():
        context.run_config = dict(config)
    server_app.app(grid, Context(1, 1, {}, RecordDict(), dict(config)))
    told = capsys.readouterr().out
    assert "round 2: mean reward 0." in told
    assert "refused: nothing" in told
