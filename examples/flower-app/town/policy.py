"""The policy that server and clients share: built from the same seed on both sides."""

from __future__ import annotations

import torch
from flwr.app import Array, ArrayRecord

from hanse import GrpoSpec, Policy, build_policy
from hanse.recipe.model import TinyPolicy

SPEC = GrpoSpec(group_size=8, prompts_per_step=4, max_new_tokens=5, lr=3e-3)


def new_policy(seed: int) -> Policy:
    return build_policy(TinyPolicy(hidden=32, layers=1, heads=2, intermediate=64), seed=seed)


def to_arrays(policy: Policy) -> ArrayRecord:
    """Trainable parameters by name, float32."""
    views = policy.parameters.views(policy.parameters.master)
    return ArrayRecord({name: Array(tensor.numpy().copy()) for name, tensor in views.items()})


def from_arrays(policy: Policy, arrays: ArrayRecord) -> None:
    """Load what `to_arrays` gave. Raises ValueError for other names or shapes."""
    parameters = policy.parameters
    if list(arrays) != list(parameters.names):
        raise ValueError("these are not the policy's parameters")
    flat = [torch.from_numpy(array.numpy().copy()).reshape(-1) for array in arrays.values()]
    policy.load(torch.cat(flat))
