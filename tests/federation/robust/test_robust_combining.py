"""Which weights count, what LoRA rules make of coefficients, and what is remembered."""

from __future__ import annotations

import pytest
import torch

from hanse.federation.aggregation import AGGREGATORS, Contribution, combine, lora_rule
from hanse.federation.robust.gram import gram
from tests.federation.robust.test_robust_gram import LAYOUT, PAIRS, changes, random, readers, regauged
from tests.federation.robust.views import moved, points, settle

FIVE = points(1, 2, 3, 4, 8)
FIXED = {"weighting": "fixed"}


def coefficients(rule: str, weights: list[float], **options) -> list[float]:
    return settle(rule, FIVE, 1, weights=weights, radius=10.0, **options).coefficients_C


def test_weights_that_the_server_bounds_count_and_no_liar_gets_half():
    assert coefficients("norm-clipping", [0.3, 0.3, 0.2, 0.1, 0.1], federation=FIXED) == pytest.approx(
        [0.3, 0.3, 0.2, 0.1, 0.1]
    )
    most = coefficients("norm-clipping", [0.6, 0.1, 0.1, 0.1, 0.1], federation=FIXED)
    assert most == pytest.approx([1 / 3, 1 / 6, 1 / 6, 1 / 6, 1 / 6])


@pytest.mark.parametrize(
    "options",
    [
        {"federation": {"weighting": "samples"}},
        {"federation": {"weighting": "reward-std", "weights": {"cap": None}}},
        {"federation": FIXED, "mixing": "nearest"},
    ],
)
def test_weights_that_nobody_bounds_do_not_count(options):
    even = coefficients("norm-clipping", [0.2] * 5, **options)
    assert coefficients("norm-clipping", [0.6, 0.1, 0.1, 0.1, 0.1], **options) == even


@pytest.mark.parametrize("rule", ["krum", "multi-krum", "median", "trimmed-mean", "dnc"])
def test_rules_that_count_heads_ignore_weights(rule):
    heavy = coefficients(rule, [0.02, 0.02, 0.02, 0.02, 0.92], federation=FIXED)
    assert heavy == coefficients(rule, [0.2] * 5, federation=FIXED)


def test_capped_signal_weights_count():
    federation = {"weighting": "reward-std"}
    weights = [0.3, 0.25, 0.2, 0.15, 0.1]
    assert coefficients("norm-clipping", weights, federation=federation) == pytest.approx(weights)


def test_multi_krum_and_flexlora_are_flexlora_of_the_chosen():
    base, *values = random(6, LAYOUT.numel)
    values[4] = values[4] + 50
    updates = torch.stack([value.double() - base.double() for value in values])
    options = {"base": base.double(), "pairs": PAIRS, "federation": {"aggregation": "flexlora"}}
    settled = settle("multi-krum", updates, 1, **options)
    chosen = [k for k, c in enumerate(settled.coefficients_C) if c > 0]
    assert len(chosen) == 2
    assert 4 not in chosen
    parts = [Contribution(0.5, base.double() + updates[k]) for k in chosen]
    rule = lora_rule("flexlora")
    expected = combine(rule, AGGREGATORS["mean"], PAIRS, base.double(), parts, lambda pair: torch.zeros(0))
    assert torch.equal(settled.combined.target, expected.target)


def test_what_coefficients_leave_of_one_goes_to_the_base():
    """FedEx is exact: base and lifted part together are the base plus sum c dW."""
    base, *values = random(6, LAYOUT.numel)
    updates = torch.stack([value.double() - base.double() for value in values])
    updates[4] *= 30
    options = {"base": base.double(), "pairs": PAIRS, "federation": {"aggregation": "fedex"}}
    settled = settle("norm-clipping", updates, 1, radius=0.5, **options)
    assert sum(settled.coefficients_C) < 0.9
    whole = changes(settled.combined.target, base)
    lifted = torch.cat([(left @ right).flatten() for left, right in settled.combined.lifted])
    each = torch.stack([changes(base.double() + update, base) for update in updates])
    assert torch.allclose(whole + lifted, torch.tensor(settled.coefficients_C).double() @ each, atol=1e-9)


@pytest.mark.parametrize("rule", ["krum", "multi-krum", "geometric-median", "norm-clipping", "dnc"])
def test_coefficients_do_not_depend_on_how_products_are_written(rule):
    base, *values = random(7, LAYOUT.numel, seed=3)
    plain = torch.stack([value.double() - base.double() for value in values])
    told = torch.stack([regauged(value, k) - base.double() for k, value in enumerate(values)])
    one, other = (settle(rule, u, 1, base=base.double(), pairs=PAIRS) for u in (plain, told))
    assert other.coefficients_C == pytest.approx(one.coefficients_C, abs=1e-9)


def test_coordinate_rules_leave_a_resting_factor_alone():
    base, *values = random(6, LAYOUT.numel)
    for value in values:
        for pair in PAIRS:
            value[pair.a] = base[pair.a]
    updates = torch.stack([value.double() - base.double() for value in values])
    settled = settle("median", updates, 1, base=base.double(), pairs=PAIRS)
    assert torch.allclose(moved(settled, base), updates.median(0).values, atol=1e-12)
    assert all(bool((moved(settled, base)[pair.a] == 0).all()) for pair in PAIRS)


def test_mixing_reaches_coordinate_rules():
    """Each of 1, 2, 3, 10 becomes the mean of its three nearest: 2, 2, 2 and 5."""
    settled = settle("trimmed-mean", points(1, 2, 3, 10), 1, mixing="nearest")
    assert moved(settled).tolist() == pytest.approx([2])
    assert settled.coefficients_C[3] == 0


def test_buckets_differ_from_round_to_round_and_not_within_one():
    first, again, second = (
        settle(
            "krum", points(1, 2, 4, 8, 16, 32, 64, 128, 256), 1, round=r, mixing="bucketing"
        ).coefficients_C
        for r in (1, 1, 3)
    )
    assert first == again
    assert first != second


def test_a_remembered_update_is_the_centre_of_the_next_round():
    honest = points([1, 0], [1, 0.1], [1, -0.1], [1.1, 0])
    lie = points([-5, 0])
    first = settle("centred-clipping", honest, 1)
    memory = first.memory
    assert memory["last"].dtype == torch.float32
    with_lie = torch.cat([honest, lie])
    remembered = moved(settle("centred-clipping", with_lie, 1, memory=memory))
    anew = moved(settle("centred-clipping", with_lie, 1))
    centre = honest.mean(0)
    assert float((remembered - centre).norm()) < 0.2 < float((anew - centre).norm())


def test_the_anchor_is_seen_through_products_too():
    base, root, *values = random(7, LAYOUT.numel)
    updates = torch.stack([value.double() - base.double() for value in values])
    settled = settle("fltrust", updates, 1, base=base.double(), pairs=PAIRS, root=root.double())
    products = gram(base.double(), readers([*values, base.double() + root.double()]), PAIRS)
    cosines = products[:-1, -1] / (products.diagonal()[:-1] * products[-1, -1]).sqrt()
    assert [c > 0 for c in settled.coefficients_C] == (cosines > 0).tolist()
