"""G7: a group of one has no advantage. The learner's own code refuses it too, not only the recipe."""

from __future__ import annotations

import pytest
import torch

from grpo.toys import make_policy, sample_groups, spec_of
from hanse.grpo.advantages import group_advantages
from hanse.grpo.step import assign_advantages


def test_a_group_of_one_is_refused_with_the_reason():
    with pytest.raises(ValueError, match="at least two members: the advantage of a single one is undefined"):
        group_advantages(torch.tensor([[1.0]]))
    (g,) = sample_groups(make_policy(), ("1+2=",), G=1)
    g.rewards_G = torch.tensor([1.0])
    with pytest.raises(ValueError, match="at least two members"):
        assign_advantages([g], spec_of())
