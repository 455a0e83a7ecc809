from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grpo.written import ADVANTAGES, CLIPPING, LOGP, MASK, RATIOS, TOTALS, inputs
from hanse.grpo.objectives import OBJECTIVES, Clipping
from hanse.grpo.objectives.base import MAX_LOG_RATIO

NAMES = sorted(OBJECTIVES)
TOKEN_LEVEL = ["bnpo", "dapo", "dr_grpo", "grpo"]
FINITE = LOGP.nan_to_num(nan=-1.0)


def value(name: str, **changes) -> float:
    return float(OBJECTIVES[name](inputs(**changes)).value)


def sums(name: str, **changes) -> dict[str, int]:
    return {k: int(v) for k, v in OBJECTIVES[name](inputs(**changes)).sums.items()}


def gradient(name: str, **changes) -> torch.Tensor:
    logp = FINITE.clone().requires_grad_()
    OBJECTIVES[name](inputs(logp, **changes)).value.backward()
    assert logp.grad is not None
    return logp.grad


@pytest.mark.parametrize("name", TOKEN_LEVEL)
def test_token_level_clip_counts(name):
    assert sums(name) == {"clipped_low": 1, "clipped_high": 1, "clippable": 5}


def test_sequence_level_clip_counts():
    far = RATIOS.clone()
    far[0], far[1] = 1.4, 0.7
    for name in ("gspo", "rloo"):
        assert sums(name, ratios=far) == {"clipped_low": 1, "clipped_high": 1, "clippable": 2}
    assert sums("gspo") == {"clipped_low": 0, "clipped_high": 0, "clippable": 2}
    assert sums("rloo") == {"clipped_low": 1, "clipped_high": 0, "clippable": 2}


def test_cispo_only_clips_above():
    assert sums("cispo", clipping=Clipping(0.2, 1.3)) == {
        "clipped_low": 0,
        "clipped_high": 1,
        "clippable": 5,
    }
    assert value("cispo", clipping=Clipping(0.2, 0.3)) != value("cispo", clipping=Clipping(0.2, 1.3))


def test_delta_caps_the_ratio_where_the_advantage_is_negative():
    capped = replace(CLIPPING, delta=1.4)
    # rollout 1's first token: 2 * 1.4 instead of 2 * 1.5
    assert value("grpo", clipping=capped) == pytest.approx((-2.8 / 3 + (2.8 + 1.6) / 2) / 2, rel=1e-12)
    assert value("dr_grpo", clipping=capped) == pytest.approx((-2.8 + 4.4) / 8, rel=1e-12)


def test_the_penalty_is_added_under_each_ones_own_normalisation():
    penalty = torch.full_like(LOGP, 0.1)
    expected = {"grpo": 0.1, "bnpo": 0.1, "dapo": 0.05, "dr_grpo": 0.5 / 8, "gspo": 0.1, "cispo": 0.05}
    for name, extra in expected.items():
        assert value(name, penalty_NT=penalty) - value(name) == pytest.approx(extra, rel=1e-9)


def test_the_correction_multiplies_the_surrogate_and_not_the_penalty():
    half, penalty = torch.full_like(LOGP, 0.5), torch.full_like(LOGP, 0.1)
    for name in [*TOKEN_LEVEL, "gspo", "cispo"]:
        alone = value(name, penalty_NT=penalty) - value(name)
        assert value(name, weight_NT=half) == pytest.approx(value(name) / 2, rel=1e-12)
        assert value(name, weight_NT=half, penalty_NT=penalty) == pytest.approx(value(name) / 2 + alone)


def test_rloo_corrects_whole_sequences_by_the_product_of_their_active_tokens():
    weights = torch.full_like(LOGP, 0.5)
    assert value("rloo", weight_NT=weights) == pytest.approx((-0.75 / 8 + 1.6 / 4) / 2, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_masked_numbers_do_not_matter_whatever_they_are(name):
    for garbage in (float("nan"), float("inf"), -1e30):
        other = LOGP.clone()
        other[1, 2] = garbage
        assert value(name, logp=other) == value(name, logp=FINITE)


@pytest.mark.parametrize("name", NAMES)
def test_garbage_behind_the_end_leaves_the_gradient_finite_and_zero_there(name):
    logp = FINITE.clone().requires_grad_()
    OBJECTIVES[name](inputs(logp, old_logp_NT=LOGP - RATIOS.log())).value.backward()
    assert logp.grad is not None and logp.grad.isfinite().all()
    assert float(logp.grad[1, 2]) == 0


def test_on_policy_gradients_are_reinforce_under_each_normalisation():
    ones = torch.ones_like(RATIOS)
    A, mask = ADVANTAGES.unsqueeze(1), MASK.double()
    lengths = mask.sum(1, keepdim=True)
    expected = {
        "grpo": -A / lengths / 2,
        "gspo": -A / lengths / 2,
        "bnpo": -A / 5,
        "dapo": -A / 10,
        "cispo": -A / 10,
        "dr_grpo": -A / 8,
        "rloo": -A / 2,
    }
    wide = Clipping(0.2, 2.0)
    for name, row in expected.items():
        torch.testing.assert_close(gradient(name, ratios=ones, clipping=wide), row * mask)


def test_off_policy_gradients_by_hand():
    w = torch.tensor([[1.0, 0.0, 0.5], [1.5, 0.0, 0.0]], dtype=torch.float64)  # 0 where the clip binds
    torch.testing.assert_close(gradient("bnpo"), -ADVANTAGES.unsqueeze(1) * w / 5)
    kept = torch.tensor([[1.0, 1.3, 0.5], [1.3, 0.5, 0.0]], dtype=torch.float64)  # CISPO drops nothing
    torch.testing.assert_close(
        gradient("cispo", clipping=Clipping(0.2, 1.3)), -ADVANTAGES.unsqueeze(1) * kept / 10
    )
    s = torch.tensor([[0.75 ** (1 / 3) / 3], [0.75**0.5 / 2]], dtype=torch.float64)
    torch.testing.assert_close(gradient("gspo"), -ADVANTAGES.unsqueeze(1) * s * MASK / 2)
    r = torch.tensor([[0.75], [0.0]], dtype=torch.float64)
    torch.testing.assert_close(gradient("rloo"), -ADVANTAGES.unsqueeze(1) * r * MASK / 2)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "cispo"])
def test_gradients_agree_with_finite_differences(name):
    def loss(logp: torch.Tensor) -> torch.Tensor:
        return OBJECTIVES[name](inputs(logp)).value

    assert torch.autograd.gradcheck(loss, FINITE.clone().requires_grad_())


@pytest.mark.parametrize("name", NAMES)
def test_a_huge_log_ratio_stays_finite(name):
    far = torch.full_like(RATIOS, MAX_LOG_RATIO * 10).exp()
    assert torch.isfinite(OBJECTIVES[name](inputs(FINITE, ratios=far.clamp(max=1e300))).value)
    assert gradient(name, ratios=far.clamp(max=1e300)).isfinite().all()


@pytest.mark.parametrize("name", NAMES)
@given(split=st.integers(1, 7), seed=st.integers(0, 99))
def test_a_loss_is_the_sum_of_its_parts(name, split, seed):
    draw = torch.Generator().manual_seed(seed)
    logp = -torch.rand(8, 3, generator=draw, dtype=torch.float64)
    whole = {
        "logp_NT": logp,
        "old_logp_NT": logp + 0.3 * torch.randn(8, 3, generator=draw, dtype=torch.float64),
        "advantages_N": torch.randn(8, generator=draw, dtype=torch.float64),
        "mask_NT": torch.rand(8, 3, generator=draw) < 0.7,
        "penalty_NT": torch.rand(8, 3, generator=draw, dtype=torch.float64),
    }
    base = inputs(totals=TOTALS)

    def loss(rows: slice) -> float:
        part = replace(base, **{k: v[rows] for k, v in whole.items()})
        return float(OBJECTIVES[name](part).value)

    assert loss(slice(0, split)) + loss(slice(split, 8)) == pytest.approx(loss(slice(0, 8)), abs=1e-12)
