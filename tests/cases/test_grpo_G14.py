"""G14: more accumulation makes training worse. Here the micro-batch changes no parameter after a step.

tests/grpo/test_accumulation.py compares losses and gradients; this one what is left in the end.
"""

from __future__ import annotations

import pytest
import torch

from grpo.toys import make_groups, make_policy, spec_of
from hanse.grpo.learner import Learner
from hanse.grpo.objectives import OBJECTIVES


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
def test_eight_micro_batches_train_as_one(objective: str):
    prompts = ("1+2=", "13+25=", "7=", "104+3=", "99+1=", "5+5=", "250+250=", "8=")
    trained = []
    for micro_batch in (32, 4):
        policy = make_policy()
        spec = spec_of(
            objective=objective, prompts_per_step=8, micro_batch=micro_batch, clip_high=1.2, lr=1e-3
        )
        learner = Learner(policy, spec, 10)
        start = policy.parameters.master.clone()
        learner.step(make_groups(policy, spec, prompts))
        trained.append(policy.parameters.master - start)
    # AdamW's first step is ±lr wherever the gradient is clearly not 0.
    different = (trained[0] - trained[1]).abs() > 1e-5
    assert different.float().mean() < 0.002
    assert torch.cosine_similarity(*trained, dim=0) > 0.999
