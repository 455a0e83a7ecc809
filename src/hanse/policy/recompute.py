"""Gradient checkpointing: activations are computed again in the backward pass instead of kept."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers import Cache, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from hanse.errors import RecipeError


def recompute_activations(model: PreTrainedModel) -> None:
    """Keep only each decoder layer's input for the backward pass, and compute the rest again.

    transformers' own switch works in training mode alone, with dropout, and drops caches silently.
    Raises RecipeError for models whose layers are not made for it.
    """
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers:
        problem = f"{type(model).__name__} does not support it."
        raise RecipeError("policy.gradient_checkpointing", problem, "Set it to false.")
    for layer in layers:
        layer.forward = partial(_recomputed, layer.forward)


def _recomputed(forward: Any, *args: Any, **kwargs: Any) -> Any:
    """A second run would write to a cache twice, so a call with a cache runs as it is."""
    cached = any(isinstance(value, Cache) for value in (*args, *kwargs.values()))
    if cached or not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)
