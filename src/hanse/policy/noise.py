"""Gumbel noise for sampling, counter-based: a pure function of stream, position and token."""

from __future__ import annotations

import torch
from torch import Tensor

_MASK32 = 0xFFFFFFFF


def _mix(x: Tensor) -> Tensor:
    """A bijective 32-bit finaliser (murmur3's), on int64 tensors that hold unsigned 32-bit values."""
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & _MASK32
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & _MASK32
    return x ^ (x >> 16)


def stream_keys(seeds_N: Tensor, slots_N: Tensor) -> Tensor:
    """One 62-bit key per (problem seed, slot). Both int64, shape (N,); result int64, shape (N,)."""
    low, high = seeds_N & _MASK32, (seeds_N >> 32) & 0x7FFFFFFF
    first = _mix(low ^ _mix((slots_N + 0x9E3779B9) & _MASK32))
    second = _mix(high ^ _mix((first + slots_N * 0x85EBCA77 + 0x1B873593) & _MASK32))
    return (first << 30) ^ second


def _signed(x: int) -> int:
    """The int32 value with the bits of an unsigned 32-bit constant."""
    return (x & _MASK32) - ((x & 0x80000000) << 1)


def _mix_(x: Tensor, scratch: Tensor) -> Tensor:
    """`_mix` in place on int32 tensors, whose products wrap as unsigned ones do."""
    for shift, factor in ((16, _signed(0x85EBCA6B)), (13, _signed(0xC2B2AE35)), (16, 1)):
        torch.bitwise_right_shift(x, shift, out=scratch)
        x.bitwise_xor_(scratch.bitwise_and_((1 << (32 - shift)) - 1))
        if factor != 1:
            x.mul_(factor)
    return x


def gumbel_noise(keys_N: Tensor, position: int | Tensor, width: int) -> Tensor:
    """Standard Gumbel noise, float32, shape (N, width), for one token position of N streams, or for one of
    each (int64, shape (N,)).

    argmax(log p + noise) is a sample of p. Uniforms have 31 bits, so probabilities down to about 5e-10
    are drawn at their true rate.
    """
    low = _mix((keys_N & _MASK32) ^ _mix(torch.full_like(keys_N, 0x632BE5AB) + position))
    high = _mix((keys_N >> 31) & _MASK32 ^ low)
    columns = torch.arange(width, dtype=torch.int64, device=keys_N.device) * 0x9E3779B1
    bits = columns.to(torch.int32).unsqueeze(0) ^ low.to(torch.int32).unsqueeze(1)
    scratch = torch.empty_like(bits)
    bits = _mix_(_mix_(bits, scratch).add_(high.to(torch.int32).unsqueeze(1)), scratch)
    uniform = bits.bitwise_and_(0x7FFFFFFF).to(torch.float32).add_(0.5).mul_(2.0**-31)
    return uniform.clamp_(max=1 - 2.0**-24).neg_().log1p_().neg_().log_().neg_()
