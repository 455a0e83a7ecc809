"""What pydantic complains about, told in the recipe's words: field, problem, remedy."""

from __future__ import annotations

from typing import Any

import pytest

from hanse.errors import RecipeError
from hanse.recipe.load import load_recipe

HF = {"policy": {"type": "hf", "path": "org/model"}}


def failure(document: dict[str, Any]) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        load_recipe(document)
    return caught.value


CASES: list[tuple[dict[str, Any], str, str, str]] = [
    ({"polcy": {}}, "polcy", "unknown key.", "Did you mean policy? Valid keys at the top: name, mode, seed"),
    (
        {"grpo": {"group_siz": 4}},
        "grpo.group_siz",
        "unknown key.",
        "Did you mean group_size? Valid keys of [grpo]: ",
    ),
    ({"group_size": 4}, "group_size", "unknown key.", "This key belongs to [grpo]. "),
    ({"lr": 1}, "lr", "unknown key.", "This key belongs to [policy.warmup] or [task.lessons] or [grpo] or "),
    (
        {"federation": {"zzz": 1}},
        "federation.zzz",
        "unknown key.",
        "Valid keys of [federation]: weighting, weights, calibration, ",
    ),
    (
        {"policy": {"type": "tiny", "hiddn": 1}},
        "policy.hiddn",
        "unknown key.",
        "Did you mean hidden? Valid keys of [policy]: type, seed, hidden, ",
    ),
    ({"policy": {"path": "x"}}, "policy.path", "unknown key.", 'This key belongs to policy.type = "hf". '),
    (
        HF | {"task": {"type": "jsonl", "path": "a", "generator": "x"}},
        "task.generator",
        "unknown key.",
        'This key belongs to task.type = "reasoning-gym". ',
    ),
    (
        {"policy": {"type": "tiny", "warmup": {"step": 1}}},
        "policy.warmup.step",
        "unknown key.",
        "Did you mean max_steps? Valid keys of [policy.warmup]: max_steps, ",
    ),
    ({"rewards": [{"naem": "exact"}]}, "rewards.0.naem", "unknown key.", "Did you mean name? "),
    (
        {"grpo": {"lr": "fast"}},
        "grpo.lr",
        'expected a number, got "fast".',
        "Give a number; the default is lr = 1e-06.",
    ),
    (
        {"grpo": {"group_size": 8.0}},
        "grpo.group_size",
        "expected an integer, got 8.0.",
        "Give an integer; the default is group_size = 8.",
    ),
    (
        {"rounds": True},
        "rounds",
        "expected an integer, got true.",
        "Give an integer; the default is rounds = 12.",
    ),
    (
        {"name": 7},
        "name",
        "expected a string, got 7.",
        'Give a string (in quotes); the default is name = "run".',
    ),
    (
        {"grpo": {"mask_truncated": "no"}},
        "grpo.mask_truncated",
        'expected true or false, got "no".',
        "Give true or",
    ),
    ({"grpo": 3}, "grpo", "expected a table, got 3.", "Write a section [grpo] with one KEY = VALUE a line."),
    (
        {"policy": 3},
        "policy",
        "expected a table, got 3.",
        "Write a section [policy] with one KEY = VALUE a line.",
    ),
    (
        {"rewards": {"name": "x"}},
        "rewards",
        "expected a list, got a table.",
        "Write each reward as a section [[rewa",
    ),
    (
        {"mode": "fed"},
        "mode",
        '"fed" is not a choice.',
        'Choose "central", "local", "federated", "swarm", "reward-model" or "reward-only".',
    ),
    ({"policy": {"type": "gpt"}}, "policy.type", '"gpt" is not a choice.', 'Choose one of "tiny", "hf".'),
    ({"track": ["wandb"]}, "track.0", '"wandb" is not a choice.', 'Choose "tensorboard" or "trackio".'),
    ({"policy": {"type": "hf"}}, "policy.path", "required, but not given.", "Add path = … to [policy]."),
    ({"seed": -1}, "seed", "must be ≥ 0, got -1.", "Change it; the default is seed = 0."),
    ({"grpo": {"lr": 0}}, "grpo.lr", "must be > 0, got 0.", "Change it; the default is lr = 1e-06."),
    ({"evaluation": {"stop_at": 2}}, "evaluation.stop_at", "must be ≤ 1, got 2.", "Change it."),
    (
        {"grpo": {"betas": [0.9]}},
        "grpo.betas",
        "too few values.",
        "Give all of them; the default is betas = [0.9, 0.99].",
    ),
    (
        {"grpo": {"betas": [0.9, 0.9, 0.9]}},
        "grpo.betas",
        "takes 2 values, got 3.",
        "Leave out the rest; the default",
    ),
    (
        {"policy": {"type": "tiny", "lora": {"targets": "q_proj"}}},
        "policy.lora.targets",
        'expected a list, got "q_proj".',
        'Give a list; the default is targets = "all-linear". Or: Choose "all-linear".',
    ),
    (
        {"policy": {"type": "tiny", "lora": {"targets": [1]}}},
        "policy.lora.targets",
        "expected a string, got 1.",
        "Give a string (in quotes)",
    ),
    (
        {"policy": {"type": "tiny", "warmup": {"mix_by_level": [0.1, "x"]}}},
        "policy.warmup.mix_by_level.1",
        'expected a number, got "x".',
        "Give a number.",
    ),
    (
        {"swarm": {"defences": [{"type": "length", "limit": 0}]}},
        "swarm.defences.0.limit",
        "must be ≥ 1, got 0.",
        "Change it.",
    ),
    (
        {"swarm": {"defences": [{"type": "length", "limt": 3}]}},
        "swarm.defences.0.limt",
        "unknown key.",
        "Did you mean limit?",
    ),
    (
        {"swarm": {"defences": [{"type": "length"}, {"type": "lenth"}]}},
        "swarm.defences.1.type",
        '"lenth" is not a choice.',
        'Choose one of "assignment"',
    ),
    ({"swarm": {"defences": [{}]}}, "swarm.defences.0.type", "required, but not given.", "Say of which type"),
    (
        {"swarm": {"defences": "all"}},
        "swarm.defences",
        '"all" is not a choice.',
        'Choose "default" or "none". Or: Give a list; the default is defences = "default".',
    ),
]


@pytest.mark.parametrize(("document", "field", "problem", "remedy"), CASES, ids=[case[1] for case in CASES])
def test_one_complaint(document: dict[str, Any], field: str, problem: str, remedy: str) -> None:
    error = failure(document)
    assert error.field == field
    assert error.problem == problem
    assert error.remedy.startswith(remedy)
    assert error.exit_code == 2
    assert str(error) == f"{error.field}: {error.problem} {error.remedy}"


def test_several_complaints_are_all_listed() -> None:
    error = failure({"grpo": {"lr": "x", "objective": "ppo"}, "sed": 1})
    text = str(error)
    assert text.startswith('grpo.objective: "ppo" is not a choice. Choose "grpo", "dr_grpo", ')
    assert 'Also wrong: grpo.lr: expected a number, got "x"; sed: unknown key.' in text
    assert "\n" not in text


def test_long_values_are_cut() -> None:
    assert len(failure({"seed": "x" * 500}).problem) < 100


def test_no_word_of_pydantic_leaks() -> None:
    for document, *_ in CASES:
        text = str(failure(document)).lower()
        assert not any(
            word in text for word in ("pydantic", "input should", "validation error", "union", "extra_")
        )
