"""Impossible sums and impossible pairs: the field, the arithmetic, a value that works."""

from __future__ import annotations

from typing import Any

import pytest

from hanse.errors import RecipeError
from hanse.recipe.load import load_recipe
from hanse.recipe.model import GrpoSpec, Recipe
from hanse.recipe.pairs import BUILT_IN_REWARDS
from hanse.tasks.rewards.resolve import BUILT_IN
from tests.recipe.refusal import assert_refused

HF = {"type": "hf", "path": "org/model"}
WORKED = {"type": "worked-sums"}
WORKED = {"type": "worked-sums"}
JSONL = {"type": "jsonl", "path": "/data.jsonl"}


def case(field: str, problem: str, remedy: str, **document: Any) -> Any:
    return pytest.param(document, field, problem, remedy, id=f"{field}: {problem[:30]}")


REFUSED = [
    case(
        "grpo.mini_batches",
        "32 / 5 = 6.4",
        "Use mini_batches = 4. Valid values: 1, 2, 4",
        grpo={"mini_batches": 5},
    ),
    case(
        "grpo.mini_batches",
        "60 / 7 = 8.571",
        "Use mini_batches = 6. Valid values: 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60.",
        mode="central",
        partition={"clients": 5},
        grpo={"prompts_per_step": 12, "mini_batches": 7},
    ),
    case(
        "runtime.workers", "8 processes for 5 clients", "Use workers = 5, or fewer.", runtime={"workers": 8}
    ),
    case(
        "partition.clients",
        "4 clients for 5 values of the column 'level'",
        "Use clients = 5, or by",
        partition={"by": "column", "clients": 4},
    ),
    case(
        "policy.heads",
        "64 / 5 = 12.8 entries a head",
        "Use heads = 4. Valid values with hidden = 64: 1, 2, 4, 8, 16, 32.",
        policy={"heads": 5},
    ),
    case("policy.heads", "64 / 64 = 1 entries a head", "Use heads = 32.", policy={"heads": 64}),
    case("policy.hidden", "33 is odd", "Use hidden = 34.", policy={"hidden": 33, "heads": 3}),
    case(
        "policy.context",
        "8 prompt tokens + 200 new tokens = 208, more than the context of 128",
        "Use context = 208, or max_new_tokens = 5",
        grpo={"max_new_tokens": 200},
    ),
    case(
        "grpo.max_new_tokens",
        "3 tokens cut every answer off: sums have 4 digits",
        "Use max_new_tokens = 5",
        grpo={"max_new_tokens": 3},
    ),
    case(
        "grpo.max_prompt_tokens",
        "every prompt has 8 tokens, more than 4",
        "Use max_prompt_tokens = 8",
        grpo={"max_prompt_tokens": 4},
    ),
    case(
        "policy.warmup.mix_by_level",
        "5 values for 3 levels",
        "for example mix_by_level = [0.35, 0.3, 0.3] and right_by_level = [0.75, 0.5, 0.3].",
        task={"levels": 3},
    ),
    case(
        "policy.warmup.right_by_level",
        "2 values for 5 levels",
        "right_by_level = [0.5, 0.4, 0.4, 0.4, 0.4].",
        policy={"warmup": {"right_by_level": [0.5, 0.4]}},
    ),
    case(
        "policy.warmup.right_by_level",
        "outside 0 … 1",
        "Give probabilities.",
        policy={"warmup": {"right_by_level": [0.5, 0.4, 0.1, 0.1, 1.5]}},
    ),
    case(
        "policy.warmup.mix_by_level",
        "its sum is 0",
        "above 0",
        policy={"warmup": {"mix_by_level": [0, 0, 0, 0, 0]}},
    ),
    case(
        "grpo.max_new_tokens",
        "15 tokens cut every answer off: the shortest has 16",
        "Use max_new_tokens = 17",
        task=WORKED,
        grpo={"max_new_tokens": 15},
    ),
    case(
        "grpo.max_new_tokens",
        "17 tokens cut every answer off: the shortest has 18",
        "Use max_new_tokens = 19",
        task=WORKED | {"form": "program"},
        grpo={"max_new_tokens": 17},
    ),
    case(
        "policy.context",
        "6 prompt tokens + 41 new tokens = 47, more than the context of 40",
        "Use context = 47",
        task=WORKED,
        grpo={"max_new_tokens": 41},
        policy={"context": 40},
    ),
    case(
        "policy.warmup",
        "brings its own lessons",
        "task.lessons",
        task=WORKED,
        policy={"warmup": {"max_steps": 3}},
    ),
    case(
        "task.lessons.wrong_format",
        "0.99 + 0.02 = 1.01: more than all",
        "Use wrong_format = 0.98 or less.",
        task=WORKED | {"lessons": {"wrong_format": 0.99}},
    ),
    case(
        "partition.clients",
        "5 clients for 3 values of the column 'level'",
        "Use clients = 3",
        task=WORKED,
        partition={"by": "column"},
    ),
    case(
        "evaluation.level_column",
        "the worked-sums task has no column 'operands'",
        'Its only column is "level"; use that.',
        task=WORKED,
        evaluation={"level_column": "operands"},
    ),
    case(
        "task.held_out_fraction",
        "0.6 held out + 0.4 for validation = 1: nothing is left",
        "Use held_out_fraction = 0.1",
        policy=HF,
        task=JSONL | {"held_out_fraction": 0.6, "validation_fraction": 0.4},
    ),
    case(
        "task.size",
        "2 problems for 3 levels",
        "Use size = 300",
        policy=HF,
        task={"type": "reasoning-gym", "generator": "x", "size": 2, "levels": [{}, {}, {}]},
    ),
    case(
        "evaluation.every",
        "an evaluation every 20 rounds never comes in 12 rounds",
        "Use every = 1.",
        evaluation={"every": 20, "stop_at": 0.5},
    ),
    case("grpo.betas.1", "1 is outside 0 ≤ beta < 1", "Use [0.9, 0.99].", grpo={"betas": [0.9, 1.0]}),
    case("name", "'../x' cannot name the run's folder", "letters, digits", name="../x"),
    case("name", "'' cannot name", "letters, digits", name=""),
    case("policy.type", 'the task is "jsonl"', 'Use policy.type = "hf" with path = ', task=JSONL),
    case(
        "evaluation.level_column",
        "the arithmetic task has no column 'topic'",
        'Its only column is "level"; use that.',
        evaluation={"level_column": "topic"},
    ),
    case(
        "partition.column",
        "the arithmetic task has no column 'topic'",
        'Its only column is "level"; use that.',
        partition={"by": "column", "column": "topic"},
    ),
    case(
        "task.held_out_split",
        "'train' is also what the clients train on",
        "or leave it out",
        policy=HF,
        task={"type": "huggingface", "path": "o/d", "held_out_split": "train"},
    ),
    case(
        "task.held_out_path",
        "'/data.jsonl' is also what the clients train on",
        "or leave it out",
        policy=HF,
        task=JSONL | {"held_out_path": "/data.jsonl"},
    ),
    case("rewards.0", "has neither a name nor a path", "Give a name (one of exact, math, ", rewards=[{}]),
    case(
        "rewards.1",
        "has both a name and a path",
        "Give a name",
        rewards=[{"name": "exact"}, {"name": "exact", "path": "a.py:f"}],
    ),
    case(
        "rewards.0.name",
        "no reward is called 'exakt'",
        "Did you mean exact? Built in: exact, math, format, length, code, reasoning_gym, tagged, program.",
        rewards=[{"name": "exakt"}],
    ),
    case(
        "rewards.0.name",
        'the task is "arithmetic", which has no generator',
        'Use "exact"',
        rewards=[{"name": "reasoning_gym"}],
    ),
    case("rewards.0.path", "names no function", 'Write "file.py:function"', rewards=[{"path": "a.py"}]),
    case("rewards", "every weight is 0", "Give one a weight", rewards=[{"name": "exact", "weight": 0.0}]),
    case(
        "grpo.clip_high",
        "0.2 cuts every weight of 1 to 0.2",
        "Use clip_high = 5",
        grpo={"objective": "cispo"},
    ),
    case(
        "grpo.delta",
        "no effect with CISPO",
        "Leave it out.",
        grpo={"objective": "cispo", "clip_high": 5.0, "delta": 4.0},
    ),
    case(
        "grpo.delta",
        "1.1 lies inside the clip range, which ends at 1 + 0.28 = 1.28",
        "Use delta = 4 (INTELLECT-2), or anything above 1.28.",
        grpo={"clip_high": 0.28, "delta": 1.1},
    ),
    case("grpo.clip_low", "with clip_low = clip_high = 0", "Use clip_low = 0.2.", grpo={"clip_low": 0.0}),
    case(
        "grpo.importance_cap",
        "a cap of 0.5 shrinks even tokens on which sampler and learner agree",
        "Use importance_cap = 2",
        grpo={"importance_correction": "truncate", "importance_cap": 0.5},
    ),
    case(
        "grpo.importance_cap",
        "a cap of 0.5 drops even tokens",
        "Use importance_cap = 2",
        grpo={"importance_correction": "mask", "importance_cap": 0.5},
    ),
]


@pytest.mark.parametrize(("document", "field", "problem", "remedy"), REFUSED)
def test_refused(document: dict[str, Any], field: str, problem: str, remedy: str) -> None:
    assert_refused(document, field, problem, remedy)


ALLOWED: list[dict[str, Any]] = [
    {},
    {"mode": "central", "runtime": {"workers": 5}},
    {"mode": "local", "runtime": {"workers": 5}},
    {"grpo": {"micro_batch": 4}},
    {"grpo": {"micro_batch": 24}},
    {"grpo": {"micro_batch": 4096}},
    {"mode": "central", "partition": {"clients": 5}, "grpo": {"prompts_per_step": 12, "mini_batches": 5}},
    {"grpo": {"objective": "cispo", "clip_high": 5.0}},
    {"grpo": {"objective": "rloo"}},
    {"grpo": {"objective": "dr_grpo"}},
    {"grpo": {"clip_low": 0.3, "clip_high": 0.2}},
    {"grpo": {"delta": 4.0}},
    {"grpo": {"importance_cap": 0.5}},
    {"grpo": {"max_new_tokens": 4}},
    {"grpo": {"dynamic_sampling": True, "warmup_steps": 1000}},
    {"partition": {"by": "dirichlet", "clients": 7}},
    {"partition": {"by": "column", "clients": 5}},
    {
        "partition": {"by": "column", "clients": 1},
        "task": {"levels": 1},
        "policy": {"warmup": {"max_steps": 0, "noisy_steps": 0}},
    },
    {"evaluation": {"every": 20}},
    {"policy": {"train": "lora", "dtype": "bfloat16"}},
    {"policy": HF, "task": JSONL | {"held_out_path": "/b.jsonl", "validation_fraction": 0.95}},
    {"policy": HF, "grpo": {"max_new_tokens": 4096}},
    {"rewards": [{"name": "exact"}, {"name": "length", "weight": -0.1}, {"path": "a.b:f", "weight": 0.0}]},
    {"rewards": [{"path": "a b.py:f"}]},
    {"name": "süß 1.5_x-y"},
]


@pytest.mark.parametrize("document", ALLOWED, ids=str)
def test_allowed(document: dict[str, Any]) -> None:
    load_recipe(document)


def test_the_error_reaches_python_callers_undisguised() -> None:
    with pytest.raises(RecipeError, match=r"^grpo\.mini_batches: "):
        Recipe(grpo=GrpoSpec(mini_batches=5))


def test_the_recipe_knows_the_built_in_rewards() -> None:
    assert set(BUILT_IN_REWARDS) == set(BUILT_IN) - {"reward-model"}  # which is a type, with a path
