"""k1 and k2 have no peer in TRL, so the values of all three estimators are worked out here."""

import math

import pytest
import torch

from hanse.grpo.objectives import kl_divergence
from hanse.grpo.objectives.base import MAX_LOG_RATIO

LOGP = torch.tensor([[0.5, 0.25, 0.8]], dtype=torch.float64).log()
REF = torch.tensor([[0.25, 0.5, 0.8]], dtype=torch.float64).log()
HALF = math.log(2)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        ("k1", [HALF, -HALF, 0.0]),
        ("k2", [HALF**2 / 2, HALF**2 / 2, 0.0]),
        ("k3", [0.5 + HALF - 1, 2 - HALF - 1, 0.0]),
    ],
)
def test_values(estimator, expected):
    torch.testing.assert_close(
        kl_divergence(LOGP, REF, estimator), torch.tensor([expected], dtype=torch.float64), rtol=0, atol=1e-15
    )


@pytest.mark.parametrize(
    ("estimator", "slope"),
    [
        ("k1", lambda r: 1.0),
        ("k2", lambda r: -r),
        ("k3", lambda r: 1 - math.exp(r)),
    ],
)
def test_gradients(estimator, slope):
    logp = LOGP.clone().requires_grad_()
    kl_divergence(logp, REF, estimator).sum().backward()
    expected = [slope(float(r)) for r in (REF - LOGP)[0]]
    assert logp.grad is not None
    torch.testing.assert_close(logp.grad[0], torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)


def test_k1_and_k3_are_unbiased_and_k3_is_never_negative():
    p, q = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]], dtype=torch.float64)
    true = float((p * (p / q).log()).sum())
    k3 = kl_divergence(p.log().unsqueeze(0), q.log().unsqueeze(0), "k3")
    assert float((p * kl_divergence(p.log().unsqueeze(0), q.log().unsqueeze(0), "k1")).sum()) == (
        pytest.approx(true, rel=1e-12)
    )
    assert float((p * k3).sum()) == pytest.approx(true, rel=1e-12)
    assert (k3 >= 0).all()


def test_a_huge_log_ratio_is_clamped():
    far = kl_divergence(torch.tensor([[-500.0]]), torch.tensor([[0.0]]), "k3")
    assert float(far) == pytest.approx(math.exp(MAX_LOG_RATIO) - MAX_LOG_RATIO - 1, rel=1e-6)
