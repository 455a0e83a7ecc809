"""The tiny policy's start: one file for each thing that decides it."""

from __future__ import annotations

import pytest
from safetensors.torch import load_file

from hanse.recipe.load import load_recipe
from hanse.runs import start
from hanse.runs.folder import RunFolder
from hanse.tasks.build import build_task

SMALL = {"type": "tiny", "hidden": 16, "layers": 1, "heads": 2, "intermediate": 16}
WORKED = {
    "mode": "central",
    "policy": SMALL,
    "task": {"type": "worked-sums", "lessons": {"max_steps": 2, "batch_size": 4}},
}


def key(document, *overrides):
    recipe = load_recipe(document, overrides)
    return start._key(recipe, recipe.policy, build_task(recipe.task))


@pytest.mark.parametrize(
    "override",
    [
        "seed=1",
        "policy.seed=1",
        "policy.hidden=32",
        'task.form="program"',
        "task.lessons.lr=1e-3",
        "task.lessons.max_steps=3",
        "task.lessons.two_and_two=0.1",
        "runtime.threads=2",
    ],
)
def test_what_decides_the_start_is_in_its_key(override):
    assert key(WORKED, override) != key(WORKED)


@pytest.mark.parametrize("override", ["rounds=3", "grpo.lr=1e-3", "mode=federated", "policy.train=lora"])
def test_what_does_not_is_not(override):
    assert key(WORKED, override) == key(WORKED)


def test_the_texts_that_are_taught_are_in_the_key(monkeypatch):
    before = key(WORKED)
    monkeypatch.setattr("hanse.tasks.worked_lessons._AGAIN", 0.25)
    assert key(WORKED) == before
    from hanse.tasks import worked_text

    form = worked_text.FORMS["rationale"]
    other = worked_text.Form(form.name, ("other words", *form.phrases[1:]), form.vocabulary)
    monkeypatch.setitem(worked_text.FORMS, "rationale", other)
    assert key(WORKED) != before


def test_worked_sums_are_taught_once_and_then_copied(tmp_path, monkeypatch):
    monkeypatch.setenv("HANSE_CACHE", str(tmp_path / "cache"))
    recipe = load_recipe(WORKED)
    task = build_task(recipe.task)
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    first = start.ensure_start(recipe, task, RunFolder(tmp_path / "a"))
    assert load_file(first)["model.embed_tokens.weight"].shape == (78, 16)
    monkeypatch.setattr(start, "teach", lambda *arguments: pytest.fail("taught again"))
    second = start.ensure_start(recipe, task, RunFolder(tmp_path / "b"))
    assert second != first and second.read_bytes() == first.read_bytes()
