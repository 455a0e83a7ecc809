"""Pairs from files and made-up ones: whose they are, what is preferred, and what is refused."""

import json

import pytest

from hanse.errors import RecipeError
from hanse.recipe.load import load_recipe
from hanse.recipe.preferences import PreferencesTask, SyntheticPreferencesTask
from hanse.tasks.build import recipe_task
from hanse.tasks.preferences import build_preferences, read_pairs
from hanse.tasks.synthetic_preferences import (
    Words,
    build_synthetic,
    owners,
    tastes,
    tone_of,
    utility,
)


def synthetic(**settings):
    return SyntheticPreferencesTask(type="synthetic-preferences", **settings)


def tone(text):
    tones = [tone_of(word) for word in text.split() if tone_of(word)]
    return sum(tones) / len(tones)


def test_tastes_come_in_opposed_pairs():
    attributes = ["tone", "length", "worked"]
    rows = tastes(synthetic(clients=[1] * 8, attributes=attributes))
    assert len({tuple(row.values()) for row in rows}) == 8
    assert all(a[name] == -b[name] for a, b in zip(rows[::2], rows[1::2], strict=True) for name in attributes)


def test_utility_by_hand():
    words = Words("", {"tone": 0.5, "length": -1.0, "worked": 1.0})
    assert utility(words, {"tone": 1, "length": -1}) == 1.5
    assert utility(words, {"tone": -1, "length": 1}) == -1.5


def test_sizes_and_owners():
    spec = synthetic(clients=[2, 1], pairs=5, validation_pairs=3, held_out_pairs=4)
    task = build_synthetic(spec)
    assert owners(spec) == [0, 0, 1]
    assert [len(task.problems(split)) for split in ("train", "validation", "held_out")] == [15, 9, 12]
    assert {(p.metadata["client"], p.metadata["group"]) for p in task.problems("train")} == {
        (0, 0),
        (1, 0),
        (2, 1),
    }


def test_without_noise_groups_prefer_opposite_tones():
    task = build_synthetic(synthetic(clients=[2, 2], pairs=20, noise=0))
    for pair in task.problems("train"):
        gap = tone(pair.metadata["chosen"]) - tone(pair.metadata["rejected"])
        assert gap > 0 if pair.metadata["group"] == 0 else gap < 0


def test_noise_is_the_share_of_wrong_labels():
    task = build_synthetic(synthetic(clients=[20], pairs=100, noise=0.2))
    wrong = [tone(p.metadata["chosen"]) < tone(p.metadata["rejected"]) for p in task.problems("train")]
    assert 0.17 < sum(wrong) / len(wrong) < 0.23


def test_every_word_is_in_the_vocabulary():
    task = build_synthetic(synthetic(clients=[3, 3], words=12))
    known = set(task.vocabulary.tokens)
    for pair in task.problems("train"):
        assert set(f"{pair.prompt} {pair.metadata['chosen']} {pair.metadata['rejected']}".split()) <= known


def test_a_pair_does_not_depend_on_how_many_there_are():
    few, many = (build_synthetic(synthetic(pairs=n, seed=4)).problems("train") for n in (3, 6))
    assert {p.id for p in few} < {p.id for p in many}
    by_id = {p.id: p for p in many}
    assert all(by_id[p.id] == p for p in few)


def test_data_belong_to_the_seed_of_the_recipe_or_to_their_own():
    def first(of_recipe, **task):
        document = {
            "mode": "reward-model",
            "seed": of_recipe,
            "task": {"type": "synthetic-preferences", "clients": [2, 2], **task},
            "partition": {"clients": 4, "by": "column", "column": "client"},
            "evaluation": {"level_column": "group"},
        }
        return recipe_task(load_recipe(document)).problems("train")[0].metadata["chosen"]

    assert first(0) == first(0) != first(1)
    assert first(0, seed=5) == first(1, seed=5)


def written(tmp_path, rows):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def pair(**others):
    return {"prompt": "Say hello.", "chosen": "Hello.", "rejected": "No.", **others}


def test_rows_become_pairs_and_keep_other_columns(tmp_path):
    path = written(
        tmp_path,
        [pair(client="a"), pair(client="b", chosen="No.", rejected="Hello."), pair(client="a")],
    )
    pairs = read_pairs(path, "task.path")
    assert [p.metadata["client"] for p in pairs] == ["a", "b", "a"]
    assert pairs[1].metadata["chosen"] == "No."
    assert len({p.id for p in pairs}) == 3


def test_pairs_of_one_prompt_are_in_one_split(tmp_path):
    rows = [pair(prompt=f"Question {i % 7}", rejected=f"No {i}.") for i in range(70)]
    task = build_preferences(PreferencesTask(type="preferences", path=written(tmp_path, rows)))
    splits = [{p.prompt for p in task.problems(s)} for s in ("train", "validation", "held_out")]
    assert sum(map(len, splits)) == len(set.union(*splits)) == 7


def test_messages_are_read_by_the_last_one(tmp_path):
    said = [{"role": "user", "content": "Say hello."}, {"role": "assistant", "content": "Hello."}]
    (only,) = read_pairs(written(tmp_path, [pair(chosen=said)]), "task.path")
    assert only.metadata["chosen"] == "Hello."


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"prompt": "x", "chosen": "y"}, "no text in column 'rejected'"),
        (pair(chosen=3), "no text in column 'chosen'"),
        (pair(chosen="No."), "prefers a completion to itself"),
        (pair(chosen="a" * (1 << 20) + "b"), "1,048,577 characters"),
    ],
)
def test_rows_that_are_no_pairs_are_refused(tmp_path, row, problem):
    with pytest.raises(RecipeError, match=problem) as caught:
        read_pairs(written(tmp_path, [row]), "task.path")
    assert caught.value.field == "task.path"
    assert "line 1" in caught.value.problem


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(RecipeError, match="no pair"):
        read_pairs(written(tmp_path, []), "rewards[0].arguments")
