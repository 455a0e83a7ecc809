"""Every symbol can be coded under every distribution, also those that it calls impossible."""

from __future__ import annotations

import constriction
import numpy as np
import pytest

from hanse.federation.wire.sparse import GAP_SYMBOLS, step_symbols
from hanse.federation.wire.tables import first_steps, geometric, model_of


def assert_codes_every_symbol(probabilities):
    model, symbols = model_of(probabilities), np.arange(len(probabilities), dtype=np.int32)
    coder = constriction.stream.stack.AnsCoder()
    coder.encode_reverse(symbols, model)
    assert coder.decode(model, len(symbols)).tolist() == symbols.tolist()


@pytest.mark.parametrize("seed", range(200))
def test_steep_distributions_with_gaps(seed):
    random = np.random.default_rng(seed)
    shares = random.random(200) ** random.integers(1, 80) * (random.random(200) < random.random())
    shares[random.integers(200)] = 1.0
    assert_codes_every_symbol(shares.astype(np.float32))


def test_the_distributions_that_stand_for_tables():
    for itemsize in (2, 4):
        assert_codes_every_symbol(first_steps(step_symbols(itemsize)))
    for changed, size in ((1, 2), (1, 1 << 22), ((1 << 22) - 1, 1 << 22), (1000, 1001)):
        assert_codes_every_symbol(geometric(changed, size, GAP_SYMBOLS))


def test_a_weight_that_crosses_zero_by_the_longest_way_is_sent():
    """Its step has the last symbol, which no table has seen: reported from rounds with error feedback."""
    import torch

    from hanse.federation.wire.layout import Layout
    from hanse.federation.wire.patch import decode_patch, encode_patch

    random = torch.Generator().manual_seed(0)
    base = (torch.randn(4096, generator=random) * 0.05).bfloat16()
    new = (base.float() * 1.02).bfloat16()
    new[:3] = -base[:3]
    new[7] = torch.tensor(float("-inf")).bfloat16()
    base[7] = torch.tensor(3e38).bfloat16()
    layout = Layout(("w",), ((4096,),), "bfloat16")
    assert torch.equal(decode_patch(encode_patch(new, base, layout), base, layout), new)
