"""LoRA aggregation rules: exactness by hand, gauge changes, what may travel."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from hanse.federation.aggregation import (
    AGGREGATORS,
    Contribution,
    combine,
    fresh_factor,
    lora_rule,
    pairs_of,
)
from hanse.federation.offset import Offset, added, followed, size_of
from hanse.federation.wire.layout import Layout

NAMES = ("m.q.lora_A.default.weight", "m.q.lora_B.default.weight")
SMALL = Layout(NAMES, ((1, 2), (2, 1)), "float32")
LARGE = Layout(
    (*NAMES, "m.v.lora_A.default.weight", "m.v.lora_B.default.weight"),
    ((2, 5), (4, 2), (2, 6), (3, 2)),
    "float32",
)
RULES = ("mean", "rolora", "ffa", "flexlora", "flora", "fedex")
EXACT = ("flora", "fedex")


def run(rule: str, layout: Layout, vectors: list[Tensor], weights: list[float], base: Tensor | None = None):
    base = torch.zeros(layout.numel) if base is None else base
    contributions = [Contribution(w, v) for w, v in zip(weights, vectors, strict=True)]
    fresh = partial(fresh_factor, 7, 2)
    return combine(lora_rule(rule), AGGREGATORS[rule], pairs_of(layout), base, contributions, fresh)


def no_draw(pair) -> Tensor:
    raise AssertionError


def products(layout: Layout, values: Tensor) -> list[Tensor]:
    return [B.double() @ A.double() for B, A in (pair.factors(values) for pair in pairs_of(layout))]


def ideal(layout: Layout, vectors: list[Tensor], weights: list[float]) -> list[Tensor]:
    each = [products(layout, v) for v in vectors]
    return [sum(w * ps[i] for w, ps in zip(weights, each, strict=True)) for i in range(len(each[0]))]


def reached(layout: Layout, combined) -> list[Tensor]:
    made = products(layout, combined.target)
    lifted = [left @ right for left, right in combined.lifted] or [torch.zeros_like(p) for p in made]
    return [p + q for p, q in zip(made, lifted, strict=True)]


def random_vectors(layout: Layout, count: int = 3, seed: int = 0) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(layout.numel, generator=draw) for _ in range(count)]


def with_letters_of(layout: Layout, vectors: list[Tensor], common: str) -> list[Tensor]:
    """All clients' factors `common` made those of the first."""
    for pair in pairs_of(layout):
        for vector in vectors:
            vector[pair.a if common == "A" else pair.b] = vectors[0][pair.a if common == "A" else pair.b]
    return vectors


def test_pairs_are_read_from_the_names():
    first, second = pairs_of(LARGE)
    assert (first.name, second.name) == ("m.q", "m.v")
    assert (first.outputs, first.rank, first.inputs) == (4, 2, 5)
    assert (second.a, second.b) == (slice(18, 30), slice(30, 36))
    assert pairs_of(Layout(("w",), ((3,),), "float32")) == ()


def test_the_mean_of_factors_misses_the_mean_product_by_hand():
    # A1 = [1 0], B1 = [1 0]'; A2 = [0 1], B2 = [0 1]': the mean product is I/2, the product of means all 1/4
    vectors = [torch.tensor([1.0, 0.0, 1.0, 0.0]), torch.tensor([0.0, 1.0, 0.0, 1.0])]
    combined = run("mean", SMALL, vectors, [0.5, 0.5])
    assert combined.target.tolist() == [0.5] * 4
    assert combined.residual == pytest.approx(0.5 / 0.5**0.5)


@pytest.mark.parametrize(("rule", "resting"), [("ffa", "A"), ("rolora", "A"), ("rolora", "B")])
def test_one_resting_factor_makes_the_mean_exact(rule, resting):
    weights = [0.5, 0.3, 0.2]
    vectors = with_letters_of(LARGE, random_vectors(LARGE), resting)
    combined = run(rule, LARGE, vectors, weights)
    for got, wanted in zip(reached(LARGE, combined), ideal(LARGE, vectors, weights), strict=True):
        assert torch.allclose(got, wanted, atol=1e-12)
    assert combined.residual < 1e-12


def test_which_factor_trains():
    assert [lora_rule("ffa").trains(r) for r in (1, 2)] == ["B", "B"]
    assert [lora_rule("rolora").trains(r) for r in (1, 2, 3)] == ["B", "A", "B"]
    assert lora_rule("mean").trains(1) == lora_rule("mean").shares(1) == "AB"


def test_flexlora_is_the_best_approximation_by_hand():
    # products diag(4, 0) and diag(0, 2): the mean is diag(2, 1), of rank 1 remains diag(2, 0)
    vectors = [torch.tensor([2.0, 0.0, 2.0, 0.0]), torch.tensor([0.0, 1.0, 0.0, 2.0])]
    combined = run("flexlora", SMALL, vectors, [0.5, 0.5])
    (made,) = products(SMALL, combined.target)
    assert torch.allclose(made, torch.diag(torch.tensor([2.0, 0.0], dtype=torch.float64)))
    assert combined.residual == pytest.approx(1 / 5**0.5)
    (pair,) = pairs_of(SMALL)
    B, A = pair.factors(combined.target)
    assert float(B.norm()) == pytest.approx(float(A.norm())) == pytest.approx(2**0.5)


def test_flexlora_cuts_as_a_dense_svd_does():
    vectors, weights = random_vectors(LARGE, 4), [0.1, 0.2, 0.3, 0.4]
    made = products(LARGE, run("flexlora", LARGE, vectors, weights).target)
    for got, whole in zip(made, ideal(LARGE, vectors, weights), strict=True):
        U, S, Vh = torch.linalg.svd(whole)
        assert torch.allclose(got, U[:, :2] * S[:2] @ Vh[:2], atol=1e-10)


def test_flexlora_keeps_a_factor_that_can_learn_where_nothing_was_learnt():
    vectors = random_vectors(LARGE, 2)
    for pair in pairs_of(LARGE):
        for vector in vectors:
            vector[pair.b] = 0
    combined = run("flexlora", LARGE, vectors, [0.5, 0.5])
    assert combined.residual == 0
    for pair in pairs_of(LARGE):
        B, A = pair.factors(combined.target)
        assert not B.any() and bool(A.any(1).all())


def regauged(layout: Layout, vectors: list[Tensor], seed: int = 3) -> list[Tensor]:
    """B -> B R, A -> R^-1 A with another R for every client and module: the same products."""
    draw = torch.Generator().manual_seed(seed)
    changed = [v.clone() for v in vectors]
    for vector in changed:
        for pair in pairs_of(layout):
            B, A = pair.factors(vector)
            R = torch.eye(pair.rank) + 0.3 * torch.randn(pair.rank, pair.rank, generator=draw)
            B.copy_(B @ R)
            A.copy_(torch.linalg.solve(R, A))
    return changed


@pytest.mark.parametrize("rule", ["flexlora", "flora"])
def test_a_gauge_change_leaves_the_result_as_it_was(rule):
    weights, vectors = [0.5, 0.3, 0.2], random_vectors(LARGE)
    before = reached(LARGE, run(rule, LARGE, vectors, weights))
    after = reached(LARGE, run(rule, LARGE, regauged(LARGE, vectors), weights))
    for a, b in zip(before, after, strict=True):
        assert torch.allclose(a, b, atol=1e-5 * float(a.norm()))


def test_a_gauge_change_moves_the_mean_of_factors():
    weights, vectors = [0.5, 0.3, 0.2], random_vectors(LARGE)
    before = reached(LARGE, run("mean", LARGE, vectors, weights))
    after = reached(LARGE, run("mean", LARGE, regauged(LARGE, vectors), weights))
    assert any((a - b).norm() > 1e-2 * a.norm() for a, b in zip(before, after, strict=True))


def test_fedex_is_exact_in_every_gauge():
    """The split between factors and base moves; their sum does not."""
    weights, vectors = [0.5, 0.3, 0.2], random_vectors(LARGE)
    before = reached(LARGE, run("fedex", LARGE, vectors, weights))
    after = reached(LARGE, run("fedex", LARGE, regauged(LARGE, vectors), weights))
    for a, b in zip(before, after, strict=True):
        assert torch.allclose(a, b, atol=1e-5 * float(a.norm()))


def test_flora_and_fedex_by_hand():
    # products diag(1, 0) and diag(0, 1), weights 1/4 and 3/4
    vectors = [torch.tensor([1.0, 0.0, 1.0, 0.0]), torch.tensor([0.0, 1.0, 0.0, 1.0])]
    flora, fedex = (run(rule, SMALL, vectors, [0.25, 0.75]) for rule in EXACT)
    ((left, right),) = flora.lifted
    assert left.tolist() == [[1, 0], [0, 1]] and right.tolist() == [[0.25, 0], [0, 0.75]]
    assert flora.target[2:].tolist() == [0, 0] and bool(flora.target[:2].all())
    ((left, right),) = fedex.lifted
    assert fedex.target.tolist() == [0.25, 0.75, 0.25, 0.75]
    assert left.shape == (2, 1)
    wanted = torch.tensor([[0.25 - 1 / 16, -3 / 16], [-3 / 16, 0.75 - 9 / 16]], dtype=torch.float64)
    assert torch.allclose(left @ right, wanted)


@pytest.mark.parametrize("rule", EXACT)
@pytest.mark.parametrize("count", [2, 5])
def test_what_goes_into_the_base_makes_the_sum_exact(rule, count):
    weights, vectors = [1 / count] * count, random_vectors(LARGE, count)
    combined = run(rule, LARGE, vectors, weights)
    assert combined.residual < 1e-12
    for got, wanted in zip(reached(LARGE, combined), ideal(LARGE, vectors, weights), strict=True):
        assert torch.allclose(got, wanted, atol=1e-12)


def test_a_fresh_a_depends_on_seed_round_and_module():
    first, second = pairs_of(LARGE)
    draw = fresh_factor(0, 1, first)
    assert torch.equal(draw, fresh_factor(0, 1, first)) and float(draw.abs().max()) <= 5**-0.5
    for other in (fresh_factor(1, 1, first), fresh_factor(0, 2, first)):
        assert not torch.equal(draw, other)
    assert fresh_factor(0, 1, second).shape == (2, 6)


@pytest.mark.parametrize("count", [1, 2])
def test_an_offset_travels_stacked_or_dense_whichever_is_smaller(count):
    pairs = pairs_of(Layout(NAMES, ((1, 6), (8, 1)), "float32"))  # dense 48 values, a stack 14 a rank
    lifted = [(torch.ones(8, 2 * count).double(), torch.ones(2 * count, 6).double())]
    offset = Offset.zeros(pairs).grown(pairs, lifted, 0.5, 1, [0])
    assert len(offset.step) == min(48, 14 * 2 * count)
    assert offset.total.tolist() == [float(count)] * 48
    assert torch.equal(added(torch.zeros(48), offset.step, pairs, offset.rank), offset.total)


def test_who_missed_an_increment_gets_the_whole_offset():
    pairs = pairs_of(LARGE)
    lifted = run("flora", LARGE, random_vectors(LARGE), [0.5, 0.3, 0.2]).lifted
    first = Offset.zeros(pairs).grown(pairs, lifted, 2.0, 1, [0, 1])
    second = first.grown(pairs, lifted, 2.0, 2, [1])
    assert Offset.zeros(pairs).lift(0, whole=True) is None
    held = followed(pairs, None, 0, first.lift(0, whole=False))
    assert torch.equal(held, first.total)
    step, whole = second.lift(1, whole=False), second.lift(0, whole=False)
    assert (step.previous, whole.previous) == (1, None) and second.lift(1, whole=True) == whole
    assert torch.equal(followed(pairs, held, 1, step), second.total)
    assert torch.equal(followed(pairs, None, 0, whole), second.total)
    assert torch.equal(followed(pairs, second.total, 2, step), second.total)
    assert followed(pairs, None, 0, step) is None
    assert size_of(pairs) == len(second.total) == 38


@pytest.mark.parametrize("rule", RULES)
def test_one_client_passes_through(rule):
    (vector,) = random_vectors(LARGE, 1)
    combined = run(rule, LARGE, [vector], [1.0])
    assert combined.residual is None
    for got, wanted in zip(reached(LARGE, combined), products(LARGE, vector), strict=True):
        assert torch.allclose(got, wanted, atol=1e-6)


def test_scaled_updates_count_as_such():
    vectors = with_letters_of(LARGE, random_vectors(LARGE), "A")
    base = vectors[0].clone()
    contributions = [Contribution(0.5, vectors[1], 2.0), Contribution(0.5, vectors[2], 0.5)]
    combined = combine(lora_rule("ffa"), AGGREGATORS["ffa"], pairs_of(LARGE), base, contributions, no_draw)
    assert combined.residual < 1e-12
