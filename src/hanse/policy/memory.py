"""Telling a lack of memory from other errors."""

from __future__ import annotations

import torch


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch could not get memory, on an accelerator or on the host."""
    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)
