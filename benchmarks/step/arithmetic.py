"""The floor: floating point operations of a step, and how many the machine does in a second."""

from __future__ import annotations

import time
from typing import Any

import torch

from hanse.policy.policy import Policy
from step.cases import Case, device_and_dtype


def step_flops(case: Case, policy: Policy, busy: float = 1.0) -> dict[str, float]:
    """Operations of one of our steps by phase; `busy` is the share of groups that are trained on.

    Products of matrices only, two operations a multiply-add. Prompts count once a group. The backward pass
    costs twice the forward one, or about once where the base is frozen (LoRA).
    """
    config: Any = policy.model.config
    layers, hidden = config.num_hidden_layers, config.hidden_size
    kv = hidden * config.num_key_value_heads // config.num_attention_heads
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * config.intermediate_size
    head = hidden * config.vocab_size
    rollouts, follow = case.P * case.G, case.T - 1

    def attention(queries: float, keys: float) -> float:
        return 4 * layers * hidden * queries * keys

    prompt = 2 * case.P * (case.L * layers * layer + head) + attention(case.P * case.L, case.L / 2)
    tokens = 2 * rollouts * follow * (layers * layer + head)
    tokens += attention(rollouts * follow, case.L + case.T / 2)
    backward = 1 if policy.lora else 2
    return {"sample": prompt + tokens, "train": busy * (1 + backward) * (prompt + tokens)}


def gemm_rate(seconds: float = 1.0) -> float:
    """Operations a second of square matrix products, best of a few sizes, in the dtype of the benchmark."""
    device, dtype = device_and_dtype()
    best = 0.0
    for n in (512, 1024, 2048) if device.type == "cpu" else (4096, 8192):
        a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            best = max(best, 2 * n**3 / _seconds_of_product(a, b))
    return best


def _seconds_of_product(a: torch.Tensor, b: torch.Tensor) -> float:
    if a.is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    a @ b
    if a.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start
