import json

import pytest

from hanse.errors import RecipeError
from hanse.recipe.tasks import HuggingFaceTask
from hanse.tasks.build import build_task


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    import datasets

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
        patch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
        datasets.disable_progress_bars()
        yield


def rows(low, high):
    return [
        {"problem": f"p{i}", "solution": f"\\boxed{{{i}}}", "level": f"Level {i % 5}"}
        for i in range(low, high)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    for name, some in (("train", rows(0, 60)), ("test", rows(50, 70))):
        (path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    return path


def spec(path, **fields):
    return HuggingFaceTask(
        type="huggingface",
        path=str(path),
        prompt="problem",
        answer="solution",
        answer_format="boxed",
        **fields,
    )


def test_local_folder_with_a_held_out_split(folder):
    task = build_task(spec(folder, held_out_split="test"))
    assert [p.prompt for p in task.problems("held_out")] == [f"p{i}" for i in range(50, 70)]
    assert len(task.problems("train")) + len(task.problems("validation")) == 50
    problem = task.problems("held_out")[0]
    assert problem.answer == "50"
    assert problem.metadata == {"solution": "\\boxed{50}", "level": "Level 0"}


def test_split_by_hash(folder):
    task = build_task(spec(folder, held_out_fraction=0.3))
    sizes = [len(task.problems(split)) for split in ("train", "validation", "held_out")]
    assert sum(sizes) == 60 and all(sizes)


def test_save_to_disk(tmp_path):
    import datasets

    data = datasets.DatasetDict({"train": datasets.Dataset.from_list(rows(0, 60))})
    data.save_to_disk(tmp_path / "many")
    data["train"].save_to_disk(tmp_path / "one")
    many, one = build_task(spec(tmp_path / "many")), build_task(spec(tmp_path / "one"))
    assert many.problems("train") == one.problems("train") != ()
    with pytest.raises(RecipeError) as caught:
        build_task(spec(tmp_path / "many", held_out_split="test"))
    assert caught.value.field == "task.held_out_split" and "'train'" in caught.value.problem


def test_unknown_split_of_a_folder(folder):
    with pytest.raises(RecipeError) as caught:
        build_task(spec(folder, split="dev"))
    assert caught.value.field == "task.split" and "dev" in caught.value.problem


def test_unreachable_hub_id():
    with pytest.raises(RecipeError) as caught:
        build_task(spec("hanse-tests/no-such-data-set"))
    assert caught.value.field == "task.path"
