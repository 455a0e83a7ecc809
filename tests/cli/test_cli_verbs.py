"""The verbs that train and look back: what they pass on, what they print, how they fail.

`hanse.runs` is replaced here: its own tests and tests/end_to_end run the real thing.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

import hanse
from hanse import errors
from hanse.cli import app
from hanse.recipe.load import dump_recipe, load_recipe
from hanse.recipe.model import Recipe
from hanse.runs.environment import environment

SUMMARY = {
    "rounds": 12,
    "seconds": 31.4,
    "evaluation": {"initial": {"accuracy": 0.2634}, "final": {"accuracy": 0.7041}},
}


@dataclass
class Finished:
    folder: Path
    summary: dict[str, Any] = field(default_factory=lambda: dict(SUMMARY))
    already_finished: bool = False


class Runs(ModuleType):
    """A stand-in for hanse.runs that remembers how it was called."""

    def __init__(self, failure: BaseException | None = None) -> None:
        super().__init__("hanse.runs")
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.failure = failure

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            if self.failure is not None:
                raise self.failure
            return self.answer(name, *args, **kwargs)

        return call

    def answer(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in ("train", "resume"):
            return Finished(Path("runs/x-001"))
        if name == "evaluate":
            levels = {"1": 0.9, "2": 0.25}
            return {"accuracy": 0.575, "accuracy_greedy": 0.6, "worst_level": 0.25, "by_level": levels}
        return args[0] / "report.html" if name == "write_report" else args[1]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return install(monkeypatch, Runs())


def install(monkeypatch: pytest.MonkeyPatch, fake: Runs) -> Runs:
    progress = ModuleType("hanse.runs.progress")
    progress.build_progress = lambda stream: f"progress on {stream.name}"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hanse.runs", fake)
    monkeypatch.setitem(sys.modules, "hanse.runs.progress", progress)
    monkeypatch.setattr(hanse, "runs", fake, raising=False)
    return fake


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "r.toml"
    path.write_text("seed = 3\n")
    return path


def hanse_cli(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    return result.exit_code, result.output


def test_train_passes_the_recipe_on(runs: Runs, recipe: Path, tmp_path: Path) -> None:
    options: list[str | Path] = [
        "--set",
        "rounds=2",
        "--set",
        "grpo.lr=1e-3",
        "--name",
        "0x",
        "--out",
        tmp_path / "o",
        "--quiet",
    ]
    code, output = hanse_cli("train", recipe, *options)
    assert code == 0
    ((name, args, kwargs),) = runs.calls
    expected = load_recipe({"seed": 3, "rounds": 2, "grpo": {"lr": 1e-3}, "name": "0x"})
    assert (name, args, kwargs) == ("train", (expected,), {"out": tmp_path / "o", "progress": None})
    assert output.splitlines() == [
        "Run folder: runs/x-001",
        "Held-out accuracy: 0.263 before, 0.704 after.",
        "Rounds: 12 in 31 s.",
        "Next: hanse report runs/x-001   or   hanse export runs/x-001",
    ]


def test_train_writes_to_runs_and_shows_progress(runs: Runs, recipe: Path) -> None:
    assert hanse_cli("train", recipe)[0] == 0
    _, (passed,), kwargs = runs.calls[0]
    assert passed == Recipe(seed=3)
    assert kwargs["out"] == Path("runs")
    assert kwargs["progress"] == "progress on <stderr>"


def test_a_bare_summary_is_enough(runs: Runs, recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runs, "answer", lambda *a, **k: Finished(Path("runs/x-001"), {}))
    code, output = hanse_cli("train", recipe)
    assert code == 0
    assert "accuracy" not in output


def test_resume(runs: Runs) -> None:
    code, output = hanse_cli("resume", "runs/x-001", "-q")
    assert (code, runs.calls) == (0, [("resume", (Path("runs/x-001"),), {"progress": None})])
    assert output.startswith("Run folder: runs/x-001\n")


def test_report(runs: Runs) -> None:
    assert hanse_cli("report", "runs/x-001") == (0, "runs/x-001/report.html\n")
    assert runs.calls == [("write_report", (Path("runs/x-001"),), {})]


@pytest.mark.parametrize(
    ("options", "out", "merge"),
    [([], "r/export", False), (["--merge"], "r/merged", True), (["--merge", "--out", "o"], "o", True)],
)
def test_export(runs: Runs, options: list[str], out: str, merge: bool) -> None:
    assert hanse_cli("export", "r", *options) == (0, f"{out}\n")
    assert runs.calls == [("export", (Path("r"), Path(out), merge), {})]


def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "x-001"
    folder.mkdir()
    (folder / "recipe.toml").write_text(dump_recipe(Recipe(seed=5)))
    return folder


def test_eval_of_a_run_uses_its_own_recipe(runs: Runs, tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    code, output = hanse_cli("eval", folder)
    assert (code, runs.calls) == (0, [("evaluate", (folder, None, "progress on <stderr>"), {})])
    rows = dict(re.findall(r"(sampled|greedy|level \d) +│ +(0\.\d+)", output))
    assert rows == {"sampled": "0.575", "greedy": "0.600", "level 1": "0.900", "level 2": "0.250"}


def test_eval_with_overrides_changes_the_runs_recipe(runs: Runs, tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    assert hanse_cli("eval", folder, "--set", "evaluation.samples=7")[0] == 0
    _, (_, passed, _), _ = runs.calls[0]
    assert (passed.seed, passed.evaluation.samples) == (5, 7)


def test_eval_of_a_model_needs_a_recipe(runs: Runs, recipe: Path, tmp_path: Path) -> None:
    code, output = hanse_cli("eval", tmp_path)
    assert code == 2
    assert "--recipe: " in output
    assert "Give --recipe RECIPE: it names the task" in " ".join(output.split())
    assert runs.calls == []
    assert hanse_cli("eval", tmp_path, "--recipe", recipe)[0] == 0
    assert runs.calls == [("evaluate", (tmp_path, Recipe(seed=3), "progress on <stderr>"), {})]


def test_eval_as_json(runs: Runs, tmp_path: Path) -> None:
    code, output = hanse_cli("eval", run_folder(tmp_path), "--json")
    assert code == 0
    assert json.loads(output)["by_level"] == {"1": 0.9, "2": 0.25}


# --- failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (errors.RecipeError("a.b", "is wrong.", "Mend it."), 2),
        (errors.InterruptedRunError("Stopped."), 3),
        (errors.NonFiniteError("Not finite."), 4),
        (errors.QuorumError("Two are missing."), 5),
        (errors.RunError("No folder."), 6),
        (errors.HanseError("Odd."), 1),
    ],
)
@pytest.mark.parametrize("verb", ["train", "resume", "report", "export", "eval"])
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch,
    recipe: Path,
    tmp_path: Path,
    failure: errors.HanseError,
    code: int,
    verb: str,
) -> None:
    install(monkeypatch, Runs(failure))
    target = recipe if verb == "train" else run_folder(tmp_path)
    assert hanse_cli(verb, target) == (code, f"{failure}\n")


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, recipe: Path) -> None:
    install(monkeypatch, Runs(ZeroDivisionError("a bug")))
    result = CliRunner().invoke(app, ["train", str(recipe)])
    assert result.exit_code == 1
    assert isinstance(result.exception, ZeroDivisionError)


def test_ctrl_c_names_the_run_to_resume(
    monkeypatch: pytest.MonkeyPatch, recipe: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (out / "r-001").mkdir(parents=True)
    (out / "r-001" / "recipe.toml").write_text("")

    class Stopped(Runs):
        def answer(self, name: str, *args: Any, **kwargs: Any) -> Any:
            (out / "r-002").mkdir()
            (out / "r-002" / "recipe.toml").write_text("")
            raise KeyboardInterrupt

    install(monkeypatch, Stopped())
    code, output = hanse_cli("train", recipe, "--out", out)
    assert code == 3
    assert " ".join(output.split()) == f"Interrupted. Continue with: hanse resume {out / 'r-002'}"


def test_ctrl_c_before_there_is_a_run(monkeypatch: pytest.MonkeyPatch, recipe: Path, tmp_path: Path) -> None:
    install(monkeypatch, Runs(KeyboardInterrupt()))
    code, output = hanse_cli("train", recipe, "--out", tmp_path / "none")
    assert (code, output) == (3, "Interrupted before the run had a folder: nothing to resume.\n")


def test_ctrl_c_while_resuming(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Runs(KeyboardInterrupt()))
    code, output = hanse_cli("resume", "runs/x-001")
    assert (code, output) == (3, "Interrupted. Continue with: hanse resume runs/x-001\n")


def test_ctrl_c_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Runs(KeyboardInterrupt()))
    code, output = hanse_cli("report", "runs/x-001")
    assert code == 3
    assert "hanse resume RUN" in output


# --- the rest ----------------------------------------------------------------------------------------


def test_version() -> None:
    assert hanse_cli("--version") == (0, f"hanse {hanse.__version__}\n")


def test_help_lists_every_verb() -> None:
    code, output = hanse_cli("--help")
    assert code == 0
    for verb in ("train", "resume", "check", "eval", "report", "export", "init", "env"):
        assert re.search(rf"\b{verb}\b", output)


def test_unknown_verbs_and_options_are_usage_errors() -> None:
    assert hanse_cli("trian")[0] == 2
    assert hanse_cli("train", "--fast")[0] == 2
    assert hanse_cli("train")[0] == 2


def test_env() -> None:
    code, output = hanse_cli("env")
    assert code == 0
    rows = dict(re.split(r"  +", line, maxsplit=1) for line in output.splitlines())
    assert rows["hanse"] == hanse.__version__
    assert {"python", "platform", "torch", "cores", "torch threads", "own namespaces"} <= set(rows)
    assert environment().keys() <= rows.keys()


def test_exit_codes_are_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "exit-codes.md").read_text()
    documented = {name: int(code) for code, name in re.findall(r"\| (\d) \| `(EXIT_\w+)` \|", text)}
    assert documented == {name: value for name, value in vars(errors).items() if name.startswith("EXIT_")}
