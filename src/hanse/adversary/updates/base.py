"""The seam: what lying clients send instead of the updates that they made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from hanse.recipe.adversary import AdversarySpec


@dataclass(frozen=True)
class Scene:
    """One exchange as the liars see it, after every honest reply is in. Updates are float64, one a row.

    `liars`: their ids; `own_FD`: the honest updates that they made; `seen_KD`: those from which they
    estimate what honest clients send, their own or all honest ones of the exchange; `clients`: how many
    upload, liars included. `first_FD`: what they made in their first rounds; `moved_D`: how the global values
    moved in the last round. `seed`: of this round's draws.
    """

    liars: Sequence[int]
    own_FD: Tensor
    seen_KD: Tensor
    clients: int
    first_FD: Tensor
    moved_D: Tensor
    seed: int


UpdateAttack = Callable[[AdversarySpec, Scene], Tensor]
"""(options, scene) -> updates to send, float64, shape (F, D). The same scene gives the same lie."""


def everybody(update_D: Tensor, scene: Scene) -> Tensor:
    """The same update from each liar. Shape (F, D)."""
    return update_D.expand(len(scene.liars), -1)
