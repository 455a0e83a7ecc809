"""What all tests share. Torch is only imported by those that need it, and computes on one thread: tensors
here are tiny, and two threads cost more than they give."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from hanse.policy.policy import Policy

settings.register_profile("hanse", deadline=None, derandomize=True)
settings.load_profile("hanse")


@pytest.fixture
def policy() -> Policy:
    """A tiny policy with clear preferences."""
    from grpo.toys import make_policy

    return make_policy()
