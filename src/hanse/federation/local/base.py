"""The seam: how a client trains between two exchanges, and what travels beside its values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from hanse.grpo.optimiser import Moments
from hanse.recipe.federation import LocalSpec

SETTLED = 100_000
"""Updates after which Adam's bias correction no longer matters: shared moments have theirs applied."""
_LARGEST = 1e15
Vectors = Mapping[str, Tensor]
"""float32 vectors by name: what a message carries, or what a party remembers."""


@dataclass(frozen=True)
class Setting:
    """A client's round as a local method sees it.

    `start`: the values that training begins with, shape (numel,); `extras`: what the server sent beside
    them; `kept`: what the method kept from its last round; `sizes`: entries of each tensor; `beta`: decay of
    AdamW's second moment.
    """

    spec: LocalSpec
    start: Tensor
    extras: Vectors
    kept: Vectors
    sizes: Sequence[int]
    beta: float = 0.99


class Plain:
    """Local steps as they are: the base of all methods, whose hooks do nothing."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rate_sum = 0.0
        self.updates = 0

    def moments(self, moments: Moments) -> Moments:
        """The optimiser's state to begin with."""
        return moments

    def gradient(self, grad: Tensor, master: Tensor) -> None:
        """See `grpo.correction`."""

    def stepped(self, master: Tensor, lr: float) -> None:
        self.rate_sum += lr
        self.updates += 1

    def finish(self, master: Tensor, moments: Moments) -> tuple[Vectors, Vectors]:
        """What to send beside the values, and what to keep."""
        return {}, self.setting.kept


@dataclass(frozen=True)
class Delivered:
    """What a server's side of a method reads after a round.

    `extras_C`: of accepted clients, to be read once; `clients`: how many there are in all; `update`: the
    mean one, float64.
    """

    extras_C: Iterable[Vectors]
    weights_C: Sequence[float]
    clients: int
    update: Tensor


@dataclass(frozen=True)
class LocalMethod:
    """`client`: trains; `absorb`: the server's vectors after a round, which are broadcast as extras in the
    next; `sends`, `receives`: sizes of the extras by name, given the tensors' sizes; `squares`: those of what
    is sent that are means of squares."""

    client: type[Plain] = Plain
    absorb: Callable[[Vectors, Delivered], Vectors] | None = None
    sends: Callable[[Sequence[int]], Mapping[str, int]] = lambda sizes: {}
    receives: Callable[[Sequence[int]], Mapping[str, int]] = lambda sizes: {}
    squares: tuple[str, ...] = ()


def bounded(vectors: Vectors) -> Vectors:
    """Finite whatever clients sent: a broadcast with anything else would be refused by all of them."""
    return {name: vector.clamp(-_LARGEST, _LARGEST) for name, vector in vectors.items()}


def renewed(past: Tensor | None, means: Tensor, answered: int, clients: int) -> Tensor:
    """The clients' mean after a round, from that of those who answered: absent ones keep their share of the
    past mean. With theirs gone, a moment that only they have would be divided by nothing."""
    return means if past is None else past.double().lerp(means, answered / clients)
