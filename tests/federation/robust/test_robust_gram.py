"""Inner products in blocks, and of what LoRA's factors do rather than of the factors."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from hanse.federation.aggregation import pairs_of
from hanse.federation.robust.gram import blocks, flat_gram, gram, lora_gram
from hanse.federation.wire.layout import Layout

LAYOUT = Layout(
    tuple(f"m.{name}.lora_{letter}.default.weight" for name in "qv" for letter in "AB"),
    ((2, 5), (4, 2), (2, 6), (3, 2)),
    "float32",
)
PAIRS = pairs_of(LAYOUT)


def random(count: int, size: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=draw).to(dtype) for _ in range(count)]


def readers(values: list[Tensor], reads: list[int] | None = None):
    def read(k: int) -> Tensor:
        if reads is not None:
            reads.append(k)
        return values[k]

    return [partial(read, k) for k in range(len(values))]


def changes(values: Tensor, base: Tensor) -> Tensor:
    """All modules' changes, dense and flat, float64."""
    parts = []
    for pair in PAIRS:
        (B, A), (B0, A0) = pair.factors(values.double()), pair.factors(base.double())
        parts.append((B @ A - B0 @ A0).flatten())
    return torch.cat(parts)


def regauged(values: Tensor, seed: int) -> Tensor:
    """Factors B R and R^-1 A of the same products, float64."""
    draw = torch.Generator().manual_seed(seed)
    values = values.double().clone()
    for pair in PAIRS:
        B, A = pair.factors(values)
        R = torch.randn(pair.rank, pair.rank, generator=draw, dtype=torch.float64) + 2 * torch.eye(pair.rank)
        B.copy_(B @ R)
        A.copy_(torch.linalg.solve(R, A))
    return values


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("held", [1 << 20, 4 * 7000, 4])
def test_blocks_give_the_products_that_dense_updates_give(dtype, held):
    base, *values = random(5, 20_000 if held > 4 else 9, dtype)
    dense = torch.stack([value.double() - base.double() for value in values])
    assert torch.allclose(flat_gram(base, readers(values), held), dense @ dense.T, rtol=1e-12)


def test_blocks_cover_all_entries_once_and_read_again_only_where_they_must():
    base, *values = random(4, 40_000)
    reads: list[int] = []
    seen = list(blocks(base, readers(values, reads)))
    assert reads == [0, 1, 2]
    again = torch.cat([block for _, block in seen], 1)
    assert torch.equal(again, torch.stack([value.double() - base.double() for value in values]))
    assert [w.start for w, _ in seen[1:]] == [w.stop for w, _ in seen[:-1]]
    list(blocks(base, readers(values, reads := []), 3 * 10_000))
    assert reads == [0, 1, 2] * 4


def test_lora_products_are_those_of_dense_changes():
    base, *values = random(5, LAYOUT.numel)
    dense = torch.stack([changes(value, base) for value in values])
    assert torch.allclose(lora_gram(base, readers(values), PAIRS), dense @ dense.T, rtol=1e-12)


def test_a_client_cannot_hide_in_other_factors_of_the_same_product():
    base, *values = random(5, LAYOUT.numel)
    told = [regauged(value, seed) for seed, value in enumerate(values)]
    before, after = (lora_gram(base, readers(v), PAIRS) for v in (values, told))
    assert torch.allclose(before, after, rtol=1e-9, atol=1e-9 * float(before.max()))
    flat = flat_gram(base.double(), readers(told))
    assert not torch.allclose(flat, flat_gram(base, readers(values)), rtol=0.1)


def test_small_moves_of_large_factors_do_not_cancel():
    base, *noise = random(4, LAYOUT.numel)
    base = base.double() * 1e3
    values = [base + 1e-7 * one.double() for one in noise]
    small = lora_gram(base, readers(values), PAIRS)
    linear = torch.stack([_first_order(value - base, base) for value in values])
    assert torch.allclose(small, linear @ linear.T, rtol=1e-5)


def _first_order(move: Tensor, base: Tensor) -> Tensor:
    parts = []
    for pair in PAIRS:
        (dB, dA), (B0, A0) = pair.factors(move), pair.factors(base)
        parts.append((dB @ A0 + B0 @ dA).flatten())
    return torch.cat(parts)


def test_which_products_are_made():
    base, *values = random(3, LAYOUT.numel)
    assert torch.equal(gram(base, readers(values), PAIRS), lora_gram(base, readers(values), PAIRS))
    assert torch.equal(gram(base, readers(values), ()), flat_gram(base, readers(values)))
