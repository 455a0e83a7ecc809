"""The `[federation.secure]` part of a recipe: the server learns a sum of updates, and no update."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from hanse.recipe.section import Section

if TYPE_CHECKING:
    from hanse.recipe.model import GrpoSpec

FEWEST_CLIENTS = 3
"""The sum of two updates tells each of the two clients the other's."""

SHORTEST, LONGEST = 1e-12, 1e6
"""No honest change of a weight is beyond, and fixed point stays finite between."""


class SecureSpec(Section):
    """Secure aggregation. `threshold`: share of a client's neighbours that must still be there at the end;
    `range`: the largest change of a weight in a round, larger ones are cut to it; None: what AdamW can move
    one at most; `bits`: of a weighted change; `neighbours`: with how many others a client shares masks, None:
    with all, and with 30 where there are more than 31 clients."""

    enabled: bool = False
    threshold: float = Field(default=2 / 3, gt=0.5, le=1)
    range: float | None = Field(default=None, gt=0, lt=1e6)
    bits: int = Field(default=24, ge=8, le=48)
    neighbours: int | None = Field(default=None, ge=4, le=100, multiple_of=2)


def word_bytes(bits: int, clients: int) -> int:
    """Of a masked entry: the smaller word in which a sum over so many clients cannot overflow."""
    return 4 if clients * (2 ** (bits - 1) - 0.5) < 2**31 else 8


def adam_bound(betas: tuple[float, float]) -> float:
    """The largest step of Adam in units of its learning rate, over all gradients: by Cauchy and Schwarz
    |m| / sqrt(v) <= (1 - b1) / sqrt((1 - b2) (1 - b1² / b2)), which bias correction only lowers, as
    (1 - r^t) (1 - b2^t) <= (1 - b1^t)² with r = b1² / b2. Infinite where b1² >= b2."""
    first, second = betas
    if first == 0 and second == 0:
        return 1.0
    if first * first >= second:
        return math.inf
    return (1 - first) / math.sqrt((1 - second) * (1 - first * first / second))


def movement(grpo: GrpoSpec) -> float:
    """The most by which one round's AdamW steps move a weight, weight decay aside."""
    return grpo.lr * updates(grpo) * adam_bound(grpo.betas)


def updates(grpo: GrpoSpec) -> int:
    """Optimiser updates of a round, at most."""
    return grpo.local_steps * grpo.iterations * grpo.mini_batches


@dataclass(frozen=True)
class Reach:
    """How far an entry may move in a round: `fixed`, or `movement` and a share of its size, in which weight
    decay and the rounding of every update are."""

    fixed: float | None
    movement: float
    relative: float

    @classmethod
    def of(cls, spec: SecureSpec, grpo: GrpoSpec) -> Reach:
        rounding = 2.0**-23
        return cls(spec.range, movement(grpo), updates(grpo) * (grpo.lr * grpo.weight_decay + rounding))

    def over(self, largest: float) -> float:
        """Of values of at most this size, which everybody holds: nothing private is in it."""
        if self.fixed is not None:
            return self.fixed
        return min(max(self.movement + self.relative * (largest + self.movement), SHORTEST), LONGEST)
