"""From what a client has learnt to what it sends: selection, cast, coding, and what is left over."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hanse.federation.messages import Payload
from hanse.federation.payload import Codec, add_quantised, cast, pack, pack_quantised
from hanse.federation.selection import Change, select
from hanse.federation.wire.layout import Layout
from hanse.federation.wire.patch import changed
from hanse.federation.wire.quantised import quantise
from hanse.recipe.federation import FederationSpec


@dataclass(frozen=True)
class Sent:
    """`residual`: to add to the values that the next round starts from; `unsent`: to add to the next
    upload; both float32, shape (numel,), or None for zeros."""

    payload: Payload
    residual: Tensor | None
    unsent: Tensor | None


@dataclass(frozen=True)
class Outbox:
    """How a federation's clients send values. `codec` is resolved: "dense", "small" or "fast"."""

    spec: FederationSpec
    layout: Layout
    codec: Codec

    def send(self, target: Tensor, base: Tensor, base_digest: str, count: int | None) -> Sent:
        """At most `count` changed entries of `target` (float32, CPU), or all of them (None).

        The residual is one quantity, target - (base + sent): its part below the grid of the exchange dtype
        re-enters by `residual`, the unsent part by `budget.error_feedback`.
        """
        change = Change.of(target, base, self.layout.dtype)
        if count is None and self.spec.budget.bits is None:
            payload = pack(change.cast, base, self.layout, self.codec, base_digest)
            return Sent(payload, self._off_grid(change), None)
        positions = select(change, count, self.spec.budget.select, self.layout.sizes())
        if self.spec.budget.bits is not None:
            update = quantise(change.moved[positions], positions, self.spec.budget.bits)
            sent, payload = add_quantised(base, update), pack_quantised(update)
        else:
            sent = base.clone()
            sent[positions] = change.cast[positions]
            payload = pack(sent, base, self.layout, self.codec, base_digest)
        return Sent(payload, *self._left(change, sent))

    def left_over(self, target: Tensor, base: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Residual and unsent where nothing is sent."""
        return self._left(Change.of(target, base, self.layout.dtype), base)

    def _left(self, change: Change, sent: Tensor) -> tuple[Tensor | None, Tensor | None]:
        unsent = (change.cast.float() - sent.float()).mul_(self.spec.budget.decay)
        residual = self._off_grid(change)
        if self.spec.budget.error_feedback == "start":
            residual = unsent if residual is None else residual + unsent
        return residual, unsent if self.spec.budget.error_feedback == "upload" else None

    def _off_grid(self, change: Change) -> Tensor | None:
        """What the cast dropped; nothing where that isn't finite (an overflow is not a residual)."""
        if self.layout.dtype == "float32" or self.spec.residual == "discard":
            return None
        return (change.target - change.cast.float()).nan_to_num_(0.0, 0.0, 0.0)


def count_changed(target: Tensor, base: Tensor) -> int:
    """How many values of a float32 target would differ from the base, in the base's dtype."""
    return int(changed(target.to(base.dtype), base).sum())


def cast_quality(target: Tensor, start: Tensor, layout: Layout) -> dict[str, float]:
    """How much of the float32 update survives the cast: its projection, and the squared error, both over
    the squared norm of the float32 update. Empty where the exchange is float32 anyway."""
    moved = (target - start).double()
    energy = float(moved.square().sum())
    if layout.dtype == "float32" or energy == 0:
        return {}
    kept = cast(target, layout).double() - start.double()
    return {
        "comm/cast_projection": float((kept * moved).sum()) / energy,
        "comm/cast_error": float((kept - moved).square().sum()) / energy,
    }


def codec_in_force(spec: FederationSpec, dtype: str) -> Codec:
    """The recipe's codec, "auto" resolved."""
    if spec.codec != "auto":
        return spec.codec
    return "small" if spec.sends_patches(dtype) else "dense"


def added(values: Tensor, extra: Tensor | None) -> Tensor:
    """values + extra, or the values themselves."""
    return values if extra is None else torch.add(values, extra)
