"""Advice: combinations that work, but that their author may not have meant."""

from __future__ import annotations

from typing import Any

import pytest

from hanse.recipe.advice import advice
from hanse.recipe.load import load_recipe

GRPO = {"lr": 1e-3}


@pytest.mark.parametrize(
    ("document", "note"),
    [
        (
            {"grpo": GRPO | {"clip_low": 0.28, "clip_high": 0.2}},
            "grpo.clip_high = 0.2 is below clip_low = 0.28",
        ),
        (
            {"grpo": GRPO | {"objective": "dr_grpo"}},
            'grpo.objective = "dr_grpo" is published with scale = "none"',
        ),
        (
            {"grpo": GRPO | {"objective": "rloo", "scale": "none"}},
            'grpo.objective = "rloo" is published with baseline = "leave_one_out".',
        ),
        ({"grpo": GRPO | {"objective": "gspo"}}, "grpo.clip_low = 0.2 hardly ever acts on GSPO's"),
        ({"grpo": GRPO | {"kl": "k1"}}, 'grpo.kl = "k1" has no effect with beta = 0.'),
        ({"grpo": GRPO | {"top_p": 0.9}}, "grpo.top_k / top_p: truncated sampling draws from another"),
        (
            {"grpo": GRPO | {"dynamic_sampling": True}},
            "grpo.dynamic_sampling may sample up to 256 × (1 + 3) = 1,024 completions a step.",
        ),
        ({"grpo": GRPO | {"max_new_tokens": 4}}, "grpo.max_new_tokens = 4 leaves no room for the end token"),
        ({"grpo": GRPO | {"warmup_steps": 60}}, "grpo.warmup_steps = 60, but there are 12 × 5 = 60 steps"),
        ({"policy": {"type": "hf", "path": "o/m"}}, "grpo.lr = 1e-06 is low for LoRA"),
        ({}, "grpo.lr = 1e-06 will not move the tiny policy within 60 steps; 1e-3 does."),
        (
            {"grpo": GRPO, "policy": {"dtype": "bfloat16"}},
            'policy.dtype = "bfloat16" makes a tiny policy slower',
        ),
        (
            {"grpo": GRPO, "policy": {"dtype": "bfloat16", "train": "lora"}},
            'policy.dtype = "bfloat16" with LoRA: the adapters keep float32 masters',
        ),
        (
            {"grpo": GRPO, "evaluation": {"every": 3, "patience": 4}},
            "evaluation.patience = 4 can never run out: 12 rounds hold 4 evaluations.",
        ),
        ({"grpo": GRPO, "mode": "central", "runtime": {"workers": 2}}, "runtime.workers has no effect"),
        ({"grpo": GRPO, "scoring": {"budget_s": 1.0}}, "scoring.deadline_s is longer than scoring.budget_s"),
        (
            {"grpo": {"lr": 1e-5}, "policy": {"type": "hf", "path": "o/m", "gradient_checkpointing": True}},
            "policy.gradient_checkpointing saves memory",
        ),
    ],
)
def test_noted(document: dict[str, Any], note: str) -> None:
    notes = advice(load_recipe(document))
    assert any(text.startswith(note) for text in notes), notes


def test_nothing_to_note() -> None:
    assert advice(load_recipe({"grpo": GRPO})) == []
