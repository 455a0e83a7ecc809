from __future__ import annotations

import math

import pytest
import torch

from grpo.toys import make_policy, spec_of
from hanse.grpo.optimiser import Moments, Optimiser, learning_rate


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_flat_updates_equal_adamw_on_the_single_tensors(weight_decay: float):
    policy = make_policy()
    parameters = policy.parameters
    spec = spec_of(weight_decay=weight_decay, betas=(0.8, 0.95))
    single = [t.clone().requires_grad_() for t in parameters.views(parameters.master).values()]
    adamw = torch.optim.AdamW(single, lr=spec.lr, betas=spec.betas, weight_decay=weight_decay)
    ours = Optimiser(parameters.master, spec)
    for step in range(5):
        grad = torch.randn(parameters.numel, generator=torch.Generator().manual_seed(step))
        for tensor, part in zip(single, parameters.views(grad).values(), strict=True):
            tensor.grad = part.clone()
        adamw.param_groups[0]["lr"] = lr = spec.lr / (1 + step)
        adamw.step()
        ours.update(grad, lr)
    flat = torch.cat([t.detach().reshape(-1) for t in single])
    torch.testing.assert_close(parameters.master, flat, rtol=1e-6, atol=1e-8)
    assert ours.moments.updates == 5


def test_moments_can_be_swapped_so_that_two_owners_take_turns():
    spec = spec_of()
    start = torch.linspace(-1, 1, 7)

    def alone(seed: int) -> torch.Tensor:
        master = start.clone()
        optimiser = Optimiser(master, spec)
        for step in range(3):
            optimiser.update(_grad(seed, step), spec.lr)
        return master

    shared = start.clone()
    optimiser = Optimiser(shared, spec)
    values = {seed: start.clone() for seed in (0, 1)}
    moments = {seed: Moments.zeros(start) for seed in (0, 1)}
    for step in range(3):
        for seed in (0, 1):
            shared.copy_(values[seed])
            optimiser.moments = moments[seed]
            optimiser.update(_grad(seed, step), spec.lr)
            values[seed] = shared.clone()
    assert torch.equal(values[0], alone(0))
    assert torch.equal(values[1], alone(1))
    assert moments[0].updates == moments[1].updates == 3


def _grad(seed: int, step: int) -> torch.Tensor:
    return torch.randn(7, generator=torch.Generator().manual_seed(10 * seed + step))


def test_warm_up_then_constant():
    spec = spec_of(lr=1.0, warmup_steps=4)
    rates = [learning_rate(spec, step, 10) for step in range(6)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_linear_and_cosine_decay_reach_zero_at_the_end_and_stay_there():
    linear = spec_of(lr=1.0, schedule="linear", warmup_steps=2)
    assert [learning_rate(linear, s, 10) for s in (0, 1, 2, 6, 10, 99)] == [0.5, 1.0, 1.0, 0.5, 0.0, 0.0]
    cosine = spec_of(lr=1.0, schedule="cosine")
    rates = [learning_rate(cosine, s, 8) for s in (0, 2, 4, 8, 20)]
    assert rates == pytest.approx([1.0, (1 + math.sqrt(0.5)) / 2, 0.5, 0.0, 0.0])
