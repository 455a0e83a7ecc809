"""Every bad input ends in one paragraph with the field and the remedy, and in exit code 2."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hanse.cli import app

HF = '[policy]\ntype = "hf"\npath = "org/model"\n'
JSONL = HF + '[task]\ntype = "jsonl"\npath = "rows.jsonl"\n'
ROWS = [{"prompt": f"{i} + {i} =", "answer": str(2 * i), "level": i % 3} for i in range(60)]

CASES = [
    ("unknown key", "[grpo]\ngroup_siz = 4\n", "grpo.group_siz: unknown key. Did you mean group_size?"),
    ("unknown section", "[polcy]\n", "polcy: unknown key. Did you mean policy?"),
    ("wrong type", '[grpo]\nlr = "fast"\n', 'grpo.lr: expected a number, got "fast". Give a number;'),
    (
        "bad choice",
        'mode = "fed"\n',
        'mode: "fed" is not a choice. Choose "central", "local", "federated", "swarm", "reward-model" '
        'or "reward-only".',
    ),
    (
        "bad toml",
        "mode = federated\n",
        "invalid TOML: Invalid value (at line 1, column 8). Correct that line;",
    ),
    ("G not dividing", "[grpo]\nmicro_batch = 12\n", "12 / 8 = 1.5 with group_size = 8"),
    (
        "group of one",
        "[grpo]\ngroup_size = 1\n",
        "grpo.group_size: 1 completion a problem leaves its advantage",
    ),
    (
        "missing column",
        JSONL + '[partition]\nby = "column"\nclients = 3\ncolumn = "topic"\n',
        "has no column 'topic'. Choose a column with one value a problem; there are: 'level'.",
    ),
    (
        "wrong number of values",
        JSONL + '[partition]\nby = "column"\nclients = 4\n',
        "partition.clients: it is 4, but the column 'level' has 3 values (0, 1, 2).",
    ),
    ("empty partition", JSONL + "[partition]\nclients = 500\n", "gets none of the"),
    ("missing prompt column", JSONL + 'prompt = "question"\n', "'question'"),
    ("missing data", JSONL.replace("rows.jsonl", "none.jsonl"), "none.jsonl does not exist"),
    ("damaged data", JSONL.replace("rows.jsonl", "bad.jsonl"), "bad.jsonl, line 2 is not JSON"),
    ("missing model folder", JSONL.replace("org/model", "./model"), "policy.path: "),
    ("tiny policy, other task", JSONL.replace(HF, ""), 'policy.type: the "tiny" policy knows sums only'),
    ("missing reward file", '[[rewards]]\npath = "mine.py:f"\n', "mine.py' does not exist (looked for it in"),
    (
        "missing reward function",
        '[[rewards]]\npath = "rewards.py:absent"\n',
        "has no function 'absent'. It defines: present.",
    ),
    (
        "broken reward file",
        '[[rewards]]\npath = "broken.py:f"\n',
        "failed: ModuleNotFoundError: No module named 'nowhere'.",
    ),
    (
        "bad reward",
        '[[rewards]]\nname = "exakt"\n',
        "rewards.0.name: no reward is called 'exakt'. Did you mean exact?",
    ),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "rewards.py").write_text("def present(completions): ...\n")
    (tmp_path / "broken.py").write_text("import nowhere\n")
    (tmp_path / "bad.jsonl").write_text('{"prompt": "a", "answer": "b"}\n{"prompt": \n')
    return tmp_path


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("text", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_check_refuses(folder: Path, text: tuple[str, str]) -> None:
    recipe, message = text
    path = folder / "recipe.toml"
    path.write_text(recipe)
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 2, result.output
    assert message in flat(result.output)
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("verb", ["train", "check"])
def test_unreadable_recipe(tmp_path: Path, verb: str) -> None:
    result = CliRunner().invoke(app, [verb, str(tmp_path / "no.toml")])
    assert result.exit_code == 2
    assert "no.toml: there is no such file. Check the path." in flat(result.output)


def test_malformed_override(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text("")
    result = CliRunner().invoke(app, ["train", str(tmp_path / "r.toml"), "--set", "grpo.lr"])
    assert result.exit_code == 2
    assert "--set: 'grpo.lr' is not an override. Write it as KEY=VALUE" in flat(result.output)


def test_one_paragraph_on_stderr_alone(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("[grpo]\nlr = 'x'\nobjectiv = 'y'\n")
    command = [sys.executable, "-c", "from hanse.cli import main; main()", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "\n\n" not in done.stderr
    assert flat(done.stderr).startswith(
        'grpo.lr: expected a number, got "x". Give a number; the default is lr'
    )
    assert "Also wrong: grpo.objectiv: unknown key." in flat(done.stderr)
    assert all(len(line) <= 100 for line in done.stderr.splitlines())
