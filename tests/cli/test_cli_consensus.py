"""`hanse consensus build` on the command line."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from hanse.cli import app
from hanse.recipe.load import dump_recipe
from tests.end_to_end.small import small_recipe


def test_builds_and_says_what_it_found(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(dump_recipe(small_recipe("grpo.shaping.consensus.build.problems_per_level=1")))
    ran = CliRunner().invoke(
        app, ["consensus", "build", str(recipe), "--out", str(tmp_path / "n.json"), "-q"]
    )
    assert ran.exit_code == 0, ran.output
    assert "of 6 problems" in ran.output and "n.json" in ran.output
    assert (tmp_path / "n.json").is_file()


def test_a_build_without_a_place_is_a_mistake_in_words(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(dump_recipe(small_recipe()))
    ran = CliRunner().invoke(app, ["consensus", "build", str(recipe), "-q"])
    assert ran.exit_code == 2
    assert "where the nodes go" in ran.output and "Traceback" not in ran.output
