import sys

import pytest

from hanse.errors import RecipeError
from hanse.recipe.pairs import BUILT_IN_REWARDS
from hanse.tasks.rewards.batch import Batch
from hanse.tasks.rewards.resolve import BUILT_IN, RewardSource, resolve

ONE = Batch(["q"], ["text"], None, {"answer": ["text"]})


def source(**fields):
    return RewardSource(
        **{"field": "rewards[2]", "name": None, "path": None, "style": "trl", "arguments": {}, **fields}
    )


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "helper_of_mine.py").write_text("VALUE = 3.0\n")
    path = tmp_path / "mine.py"
    path.write_text(
        "from helper_of_mine import VALUE\n"
        "def plain(completions, **kwargs):\n    return [VALUE] * len(completions)\n"
        "class Judge:\n    @staticmethod\n"
        "    def rate(completions, completion_ids=None):\n        return [1.0]\n"
        "async def later(completions):\n    return [2.0]\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    return path


def test_built_ins():
    assert set(BUILT_IN) - {"reward-model"} == set(BUILT_IN_REWARDS)
    reward = resolve(source(name="exact"))
    assert reward.call(ONE) == [1.0] and not reward.needs_ids
    assert resolve(source(name="length", arguments={"max_tokens": 3, "buffer": 1})).needs_ids


def test_a_function_in_a_file_finds_its_neighbours(module):
    reward = resolve(source(path=f"{module}:plain"))
    assert reward.call(ONE) == [3.0] and reward.needs_ids


def test_attributes_of_a_module_on_the_path(module):
    sys.path.insert(0, str(module.parent))
    reward = resolve(source(path="mine:Judge.rate"))
    assert reward.call(ONE) == [1.0] and reward.needs_ids
    later = resolve(source(path="mine:later"))
    assert later.call(ONE) == [2.0] and not later.needs_ids


@pytest.mark.parametrize("text", ["import nothing_like_this", "raise SystemExit(1)", "def f(:", "1 / 0"])
def test_a_module_that_cannot_be_imported(tmp_path, text):
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(RecipeError) as caught:
        resolve(source(path=f"{tmp_path}/broken.py:f"))
    assert caught.value.field == "rewards[2].path" and "importing" in caught.value.problem


def test_missing_extra_is_reported_on_the_reward(monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    with pytest.raises(RecipeError) as caught:
        resolve(source(name="math"))
    assert caught.value.field == "rewards[2]" and 'pip install -e ".[data]"' in caught.value.remedy
