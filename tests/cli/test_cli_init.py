"""`hanse init`: from the user's own rows to a recipe that `hanse check` accepts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hanse.cli import app
from hanse.cli.columns import guess
from hanse.recipe.load import load_recipe
from hanse.recipe.model import Recipe


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows(n: int = 60, **columns: Any) -> list[dict[str, Any]]:
    made = {"question": lambda i: f"What is {i} + {i}?", "answer": lambda i: str(2 * i)} | columns
    return [{name: make(i) for name, make in made.items()} for i in range(n)]


def init(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, ["init", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.output


def made(tmp_path: Path, data: list[dict[str, Any]], *options: str) -> tuple[Recipe, str]:
    file = write(tmp_path / "my rows.jsonl", data)
    target = tmp_path / "sub" / "r.toml"
    target.parent.mkdir()
    output = init(file, "--out", target, *options)
    return load_recipe(target), output


def test_recipe_from_rows(tmp_path: Path) -> None:
    recipe, output = made(
        tmp_path, rows(subject=lambda i: ["algebra", "geometry", "sets"][i % 3], n_=lambda i: i)
    )
    task = recipe.task
    assert task.type == "jsonl"
    assert task.path == str(tmp_path / "my rows.jsonl")
    assert (task.prompt, task.answer, task.answer_format, task.chat) == ("question", "answer", "plain", True)
    assert (recipe.partition.by, recipe.partition.column, recipe.partition.clients) == (
        "column",
        "subject",
        3,
    )
    assert recipe.evaluation.level_column == "subject"
    assert recipe.name == "my-rows"
    assert [reward.name for reward in recipe.rewards] == ["math"]
    assert "60 rows: 'question' asks, 'answer' answers (plain), owners by 'subject'." in output
    for step in ("hanse check", "hanse train", "--set rounds=1"):
        assert step in output


def test_the_recipe_passes_check(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", rows(200, level=lambda i: i % 4))
    init(file, "--out", tmp_path / "r.toml")
    result = CliRunner().invoke(app, ["check", str(tmp_path / "r.toml")])
    assert result.exit_code == 0, result.output
    assert "level-3" in result.output


def test_the_recipe_is_commented(tmp_path: Path) -> None:
    file = write(tmp_path / "r.jsonl", rows(level=lambda i: i % 4, topic=lambda i: "ab"[i % 2]))
    init(file, "--out", tmp_path / "r.toml")
    text = (tmp_path / "r.toml").read_text()
    assert "# Columns: question, answer, level, topic\n" in text
    assert "# level: 0 (15), 1 (15), 2 (15), 3 (15)\nclients = 4\n" in text
    assert "# topic: a (30), b (30)\n# clients = 2\n" in text, "the other candidate, ready to use"


def test_without_owners_it_is_iid(tmp_path: Path) -> None:
    recipe, output = made(tmp_path, rows())
    assert (recipe.partition.by, recipe.partition.clients) == ("iid", 4)
    assert "owners by" not in output


@pytest.mark.parametrize(
    ("answer", "answer_format", "reward"),
    [
        (lambda i: f"so it is\n#### {i}", "gsm8k", "math"),
        (lambda i: f"thus $\\boxed{{{i}}}$", "boxed", "math"),
        (lambda i: f"{i}.5", "plain", "math"),
        (lambda i: i, "plain", "math"),
        (lambda i: f"city {i}", "plain", "exact"),
    ],
)
def test_answer_formats(tmp_path: Path, answer: Any, answer_format: str, reward: str) -> None:
    recipe, _ = made(tmp_path, rows(answer=answer))
    assert recipe.task.answer_format == answer_format  # type: ignore[union-attr]
    assert recipe.rewards[0].name == reward


def test_columns_can_be_told(tmp_path: Path) -> None:
    data = [{"frage": f"Wie viel ist {i}?", "antwort": str(i), "note": "x" * 90} for i in range(30)]
    recipe, _ = made(tmp_path, data, "--prompt", "frage", "--answer", "antwort", "--model", "org/other")
    assert (recipe.task.prompt, recipe.task.answer) == ("frage", "antwort")  # type: ignore[union-attr]
    assert recipe.policy.path == "org/other"  # type: ignore[union-attr]


@pytest.mark.parametrize(("answer", "told"), [(str, True), (lambda i: f"city {i}", False)])
def test_a_missing_package_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any, told: bool
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    _, output = made(tmp_path, rows(answer=answer))
    assert ('pip install -e ".[data]"  ' in output) == told


def test_messages_are_prompts(tmp_path: Path) -> None:
    data = rows(question=lambda i: [{"role": "user", "content": f"{i}?"}])
    recipe, _ = made(tmp_path, data)
    assert (recipe.task.prompt, recipe.task.chat) == ("question", False)  # type: ignore[union-attr]


def test_strange_names_survive(tmp_path: Path) -> None:
    strange = 'a "b" \\ c\x7f'
    data = [{strange: f"Ask {i}", "answer": "x"} for i in range(20)]
    recipe, _ = made(tmp_path, data, "--prompt", strange)
    assert recipe.task.prompt == strange  # type: ignore[union-attr]


def test_owner_candidates_are_ranked() -> None:
    data = rows(
        question=lambda i: "q" * (i + 1),
        constant=lambda i: "same",
        unique=lambda i: f"id{i}",
        pair=lambda i: i % 2,
        site=lambda i: f"hospital {i % 5}",
        real=lambda i: i / 7,
    )
    assert list(guess(Path("x"), data).owners) == ["site", "pair"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no rows. Give one JSON object a line"),
        ('{"a": 1}\n{"a": \n', "line 2 is not JSON (Expecting value, column 6)"),
        ("[1]\n", "line 1 is a JSON list, not an object"),
        (
            '{"question": "x", "answer": "\\udc00"}\n',
            "line 1, column 'answer' holds half of a surrogate",
        ),
        (
            '{"question": "x"}\n',
            "no column looks like the answer; there are: question. Say which one it is: --answer",
        ),
        ('{"answer": 3}\n', "no column looks like the prompt"),
    ],
)
def test_bad_rows(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(content)
    result = CliRunner().invoke(app, ["init", str(file), "--out", str(tmp_path / "r.toml")])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "r.toml").exists()


def test_missing_file_and_column(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["init", str(tmp_path / "none.jsonl")])
    assert result.exit_code == 2
    assert "cannot be read (No such file or directory)" in " ".join(result.output.split())
    file = write(tmp_path / "rows.jsonl", rows())
    result = CliRunner().invoke(app, ["init", str(file), "--prompt", "frage"])
    assert result.exit_code == 2
    assert "--prompt: there is no column 'frage'. Columns: question, answer." in " ".join(
        result.output.split()
    )


def test_an_unwritable_target(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", rows())
    result = CliRunner().invoke(app, ["init", str(file), "--out", str(tmp_path / "no" / "r.toml")])
    assert result.exit_code == 2
    assert "Name a file in a folder that exists." in " ".join(result.output.split())


def test_no_overwriting_by_accident(tmp_path: Path) -> None:
    file, target = write(tmp_path / "rows.jsonl", rows()), tmp_path / "r.toml"
    target.write_text("precious")
    result = CliRunner().invoke(app, ["init", str(file), "--out", str(target)])
    assert result.exit_code == 2
    assert "Give --force to overwrite it" in " ".join(result.output.split())
    assert target.read_text() == "precious"
    init(file, "--out", target, "--force")
    load_recipe(target)
