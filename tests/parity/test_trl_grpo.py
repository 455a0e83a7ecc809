"""Promise 4: loss and gradient equal TRL's on the same batch, with one and with two updates (≤ 1e-5)."""

from __future__ import annotations

import pytest

pytest.importorskip("trl", reason="the parity suite needs TRL: pip install -e '.[bench]'")

from parity.ours import Ours, assert_same, make_batch, make_reference, our_spec
from parity.trl_peer import keep_order, save_reference, train_peer

# recipe name -> TRL's settings. GSPO is sequence-level importance under the loss "grpo"; CISPO's clip is on
# the weight itself in both (`epsilon_high` = 1.2 there caps the ratio at 1.2).
PEERS = {
    "grpo": {"loss_type": "grpo"},
    "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "dapo": {"loss_type": "dapo"},
    "bnpo": {"loss_type": "bnpo"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.2},
    "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence"},
}
OURS = {"dr_grpo": {"scale": "none"}, "cispo": {"clip_high": 1.2}}


def compare(tmp_path, objective: str, updates: int, ours: dict, theirs: dict, **batch) -> tuple:
    policy, groups = make_batch(**batch)
    reference = make_reference(policy)
    folder = save_reference(policy, reference, tmp_path)
    peer = train_peer(folder, policy, groups, updates, **(PEERS[objective] | theirs))
    spec = our_spec(objective, iterations=updates, **(OURS.get(objective, {}) | ours))
    mine = Ours(policy, groups, spec, reference)
    assert_same(mine, peer)
    return mine, peer


@pytest.mark.parametrize("beta", [0.0, 0.2])
@pytest.mark.parametrize("updates", [1, 2])
@pytest.mark.parametrize("objective", sorted(PEERS))
def test_objective(tmp_path, objective: str, updates: int, beta: float):
    mine, peer = compare(tmp_path, objective, updates, {"beta": beta}, {"beta": beta})
    assert len(peer.losses) == updates
    if updates == 2:  # the second update is off policy
        assert mine.metrics["clip_ratio/region_mean"] > 0
    if beta:
        assert peer.metrics["kl"][0] > 0.001
        assert mine.metrics["kl"] == pytest.approx(sum(peer.metrics["kl"]) / updates, rel=1e-4)


@pytest.mark.parametrize("objective", ["grpo", "dapo", "gspo"])
def test_asymmetric_clip_and_delta(tmp_path, objective: str):
    ours = {"clip_low": 0.05, "clip_high": 0.1, "delta": 1.15}
    theirs = {"epsilon": 0.05, "epsilon_high": 0.1, "delta": 1.15}
    mine, peer = compare(tmp_path, objective, 2, ours, theirs)
    for side in ("low", "high"):
        name = f"clip_ratio/{side}_mean"
        assert mine.metrics[name] > 0
        assert mine.metrics[name] == pytest.approx(sum(peer.metrics[name]) / 2, rel=1e-4)


@pytest.mark.parametrize(("scale", "peer"), [("batch", "batch"), ("none", "none"), ("group", "group")])
def test_scales_of_advantages(tmp_path, scale: str, peer: str):
    compare(tmp_path, "dapo", 1, {"scale": scale}, {"scale_rewards": peer})


@pytest.mark.parametrize("objective", ["dapo", "dr_grpo", "bnpo"])
def test_masked_truncated_completions(tmp_path, objective: str):
    """Not for `grpo`: TRL's mean over rollouts counts masked ones, ours does not (G13)."""
    theirs = {"mask_truncated_completions": True, "learning_rate": 2e-4}
    compare(tmp_path, objective, 2, {"mask_truncated": True, "lr": 2e-4}, theirs)


def test_temperature(tmp_path):
    compare(tmp_path, "grpo", 2, {"temperature": 0.6}, {"temperature": 0.6}, temperature=0.6)


@pytest.mark.parametrize("objective", ["grpo", "dapo", "bnpo", "dr_grpo", "cispo"])
def test_two_mini_batches(tmp_path, monkeypatch, objective: str):
    """DAPO's and CISPO's denominators span the rollout batch, BNPO's one mini-batch, in both."""
    keep_order(monkeypatch)
    policy, groups = make_batch()
    folder = save_reference(policy, policy.parameters.master, tmp_path)
    halves = {"per_device_train_batch_size": 8, "steps_per_generation": 2, "num_iterations": 1}
    peer = train_peer(folder, policy, groups, 2, **(PEERS[objective] | halves))
    spec = our_spec(objective, mini_batches=2, **OURS.get(objective, {}))
    assert_same(Ours(policy, groups, spec), peer)


def test_unscored_completions(tmp_path):
    """TRL keeps them in DAPO's denominator and we do not, so the gradients are parallel."""
    policy, groups = make_batch()
    groups[1].rewards_G[2] = float("nan")
    folder = save_reference(policy, policy.parameters.master, tmp_path)
    peer = train_peer(folder, policy, groups, 1, loss_type="dapo")
    mine = Ours(policy, groups, our_spec("dapo"))
    all_tokens = sum(int(g.lengths_G.sum()) for g in groups)
    factor = all_tokens / (all_tokens - int(groups[1].lengths_G[2]))
    peer.losses = [loss * factor for loss in peer.losses]
    peer.gradients = [{n: g * factor for n, g in gs.items()} for gs in peer.gradients]
    assert_same(mine, peer)
