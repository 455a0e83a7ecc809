"""Our `rloo` with leave-one-out advantages equals TRL's RLOOTrainer, its KL in the reward."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("trl", reason="the parity suite needs TRL: pip install -e '.[bench]'")

from parity.ours import Ours, assert_same, make_batch, make_reference, our_spec
from parity.trl_peer import save_reference, train_peer

# Ratios of whole sequences move fast: a larger step would have all of them clipped.
SMALL_STEP = {"learning_rate": 2e-4, "normalize_advantages": False}


@pytest.mark.parametrize("beta", [0.0, 0.2])
@pytest.mark.parametrize("updates", [1, 2])
def test_rloo(tmp_path, updates: int, beta: float):
    policy, groups = make_batch()
    reference = make_reference(policy)
    folder = save_reference(policy, reference, tmp_path)
    peer = train_peer(folder, policy, groups, updates, rloo=True, beta=beta, **SMALL_STEP)
    leave_one_out = {"baseline": "leave_one_out", "scale": "none"}
    spec = our_spec("rloo", iterations=updates, beta=beta, lr=2e-4, **leave_one_out)
    mine = Ours(policy, groups, spec, reference)
    assert_same(mine, peer)
    if beta:
        assert peer.metrics["kl"][0] != 0
        plain = Ours(policy, groups, our_spec("rloo", **leave_one_out))
        assert not torch.allclose(mine.advantages, plain.advantages)
