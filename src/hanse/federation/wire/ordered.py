"""Bit patterns as ordered integers, and the signed step between two of them.

The ordered integer of a pattern grows with the value: patterns with a clear sign bit stand for themselves,
the others for -1 - magnitude. So -0 is -1 and +0 is 0, infinities and NaNs lie at both ends, and the map is a
bijection of all patterns: one unit in the last place is a step of one, and no pattern needs an escape.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hanse.federation.wire.layout import Bits

Signed = NDArray[np.signedinteger]


def ordered(bits: Bits) -> Signed:
    """Ordered integers of bit patterns, shape kept, signed of the same width."""
    signed = bits.view(np.dtype(f"i{bits.itemsize}"))
    top = 8 * bits.itemsize - 1
    flipped: Signed = signed ^ ((signed >> top) & ((1 << top) - 1))
    return flipped


def pattern(values: Signed) -> Bits:
    """Bit patterns of ordered integers; the inverse of `ordered`."""
    top = 8 * values.itemsize - 1
    flipped = values ^ ((values >> top) & ((1 << top) - 1))
    return flipped.view(np.dtype(f"u{values.itemsize}"))


def outward_steps(new: Bits, base: Bits) -> Signed:
    """Steps from base to new in units in the last place, positive away from zero.

    They wrap around at the width of the dtype, so that every pair of patterns has a step.
    """
    return _mirror(ordered(new) - ordered(base), base)


def step_out(base: Bits, steps: Signed) -> Bits:
    """The patterns reached from base by outward steps; the inverse of `outward_steps`."""
    return pattern(ordered(base) + _mirror(steps, base))


def _mirror(steps: Signed, base: Bits) -> Signed:
    negative = base.view(np.dtype(f"i{base.itemsize}")) >> (8 * base.itemsize - 1)
    return (steps ^ negative) - negative
