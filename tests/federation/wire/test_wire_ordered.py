import numpy as np
import pytest
import torch

from hanse.federation.wire.layout import Layout, bits_of
from hanse.federation.wire.ordered import ordered, outward_steps, pattern, step_out

BF16 = Layout(("x",), ((1,),), "bfloat16")


def bf16(*patterns):
    return np.array(patterns, dtype=np.uint16)


@pytest.mark.parametrize(
    "bits, expected",
    [
        (0x0000, 0),  # +0
        (0x8000, -1),  # -0
        (0x0001, 1),  # the smallest subnormal
        (0x8001, -2),
        (0x3F80, 16256),  # 1
        (0xBF80, -16257),  # -1
        (0x7F80, 32640),  # inf
        (0xFF80, -32641),
        (0x7FFF, 32767),  # a NaN
        (0xFFFF, -32768),
    ],
)
def test_ordered_integers_by_hand(bits, expected):
    assert ordered(bf16(bits)).tolist() == [expected]
    assert pattern(np.array([expected], dtype=np.int16)).tolist() == [bits]


def test_ordered_integers_in_float32_by_hand():
    bits = np.array([0x3F800000, 0xBF800000, 0x80000000], dtype=np.uint32)
    assert ordered(bits).tolist() == [1065353216, -1065353217, -1]


def test_order_is_the_order_of_values():
    every = np.arange(1 << 16, dtype=np.uint16)
    values = torch.from_numpy(every.view(np.int16)).view(torch.bfloat16).float().numpy()
    finite = np.isfinite(values)
    rising = np.argsort(ordered(every)[finite], kind="stable")
    assert (np.diff(values[finite][rising]) >= 0).all()
    assert len(set(ordered(every).tolist())) == 1 << 16


@pytest.mark.parametrize(
    "base, new, step",
    [
        (0x3F80, 0x3F81, 1),  # 1 to the next above
        (0x3F80, 0x3F7F, -1),
        (0xBF80, 0xBF81, 1),  # away from zero on the other side
        (0x3FFF, 0x4000, 1),  # over a power of two
        (0x0000, 0x8000, -1),  # +0 to -0
        (0x8000, 0x0000, -1),
        (0x0001, 0x8001, -3),
        (0x7FFF, 0xFFFF, 1),  # 32767 to -32768 wraps around
    ],
)
def test_steps_by_hand(base, new, step):
    assert outward_steps(bf16(new), bf16(base)).tolist() == [step]
    assert step_out(bf16(base), np.array([step], dtype=np.int16)).tolist() == [new]


@pytest.mark.parametrize("base", [0x0000, 0x8000, 0x0001, 0x3F80, 0xBF81, 0x7F80, 0xFFC0, 0x7FFF, 0xFFFF])
def test_every_pattern_is_reached_from_any_base(base):
    every = np.arange(1 << 16, dtype=np.uint16)
    start = np.full_like(every, base)
    assert (step_out(start, outward_steps(every, start)) == every).all()


def test_bits_share_memory_with_the_tensor():
    assert bits_of(torch.tensor([-0.0], dtype=torch.bfloat16), BF16).tolist() == [0x8000]
    with pytest.raises(ValueError, match="does not fit"):
        bits_of(torch.zeros(2, dtype=torch.bfloat16), BF16)
    with pytest.raises(ValueError, match="does not fit"):
        bits_of(torch.zeros(1), BF16)
