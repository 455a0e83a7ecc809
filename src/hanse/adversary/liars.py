"""Lying clients of a federation: what becomes of their honest replies, once those of all others are in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import torch
from torch import Tensor

from hanse.adversary.inflate_signal import inflate_signal
from hanse.adversary.updates import UPDATE_ATTACKS, Scene
from hanse.federation.messages import Report, Upload
from hanse.federation.payload import entries_of, unpack
from hanse.federation.sending import Outbox, count_changed
from hanse.federation.wire.frame import WireError, kind_of
from hanse.randomness import derive_seed
from hanse.recipe.adversary import COLLUSIVE, AdversarySpec

Message = TypeVar("Message", Report, Upload)


@dataclass(frozen=True)
class Ground:
    """What all clients of an open round start from: `base` in the exchange dtype, shape (numel,), and its
    hash."""

    round: int
    base: Tensor
    digest: str


@dataclass
class Memory:
    """What liars keep from round to round. `first`: each one's first honest update, float32, shape (numel,),
    and the round that it is of; `bases`: the last rounds' values by round, in the exchange dtype."""

    first: dict[int, tuple[int, Tensor]] = field(default_factory=dict)
    bases: dict[int, Tensor] = field(default_factory=dict)


class Liars:
    """Rewrites what liars answer. The same round gives the same lies, however often it is asked for."""

    def __init__(self, spec: AdversarySpec, outbox: Outbox, seed: int) -> None:
        self.spec, self.outbox, self.seed = spec, outbox, seed
        self.memory = Memory()

    def rewrite(self, ground: Ground, replies: Mapping[int, bytes]) -> dict[int, bytes]:
        """The liars' part of an exchange, by client id; other messages than reports and uploads pass."""
        lies = {k: data for k, data in replies.items() if k in self.spec.clients}
        uploads = {k: _upload(data) for k, data in lies.items() if _kind(data) == "upload"}
        if uploads and self.spec.rewrites:
            uploads = self._updates(ground, uploads, replies)
        for k, data in lies.items():
            if k in uploads:
                lies[k] = self._told(uploads[k]).to_bytes()
            elif _kind(data) == "report":
                lies[k] = self._told(Report.from_bytes(data)).to_bytes()
        return lies

    def _told(self, message: Message) -> Message:
        if not self.spec.inflates:
            return message
        return replace(message, signal=inflate_signal(message.signal, self.spec.inflation))

    def _updates(
        self, ground: Ground, uploads: Mapping[int, Upload], replies: Mapping[int, bytes]
    ) -> dict[int, Upload]:
        own_FD = torch.stack([self._update(ground, upload) for upload in uploads.values()])
        seen_KD = self._seen(ground, replies, own_FD)
        clients = sum(_kind(data) == "upload" for data in replies.values())
        scene = Scene(
            liars=list(uploads),
            own_FD=own_FD,
            seen_KD=seen_KD,
            clients=clients,
            first_FD=self._first(ground, list(uploads), own_FD),
            moved_D=self._moved(ground),
            seed=derive_seed(self.seed, "lie", ground.round),
        )
        lies_FD = UPDATE_ATTACKS[self.spec.attack](self.spec, scene)
        return {
            client: self._carry(ground, upload, lie_D)
            for (client, upload), lie_D in zip(uploads.items(), lies_FD, strict=True)
        }

    def _seen(self, ground: Ground, replies: Mapping[int, bytes], own_FD: Tensor) -> Tensor:
        """The updates that an attack rests on. Shape (K, D)."""
        if self.spec.knowledge == "own" or self.spec.attack not in COLLUSIVE:
            return own_FD
        found = []
        for client, data in replies.items():
            if client in self.spec.clients or _kind(data) != "upload":
                continue
            try:
                found.append(self._update(ground, _upload(data)))
            except WireError:  # what the server will refuse teaches liars nothing either
                continue
        return torch.stack(found) if found else own_FD

    def _first(self, ground: Ground, liars: Sequence[int], own_FD: Tensor) -> Tensor:
        """Each liar's first honest update, this round's where it has none of an earlier one."""
        for liar, own_D in zip(liars, own_FD, strict=True):
            if self.memory.first.get(liar, (ground.round,))[0] >= ground.round:
                self.memory.first[liar] = (ground.round, own_D.float())
        return torch.stack([self.memory.first[liar][1].double() for liar in liars])

    def _moved(self, ground: Ground) -> Tensor:
        """How far the global values are from those of the round before; zeros where that is not known."""
        bases = self.memory.bases
        bases[ground.round] = ground.base
        self.memory.bases = {n: base for n, base in bases.items() if ground.round - 1 <= n <= ground.round}
        return ground.base.double() - bases.get(ground.round - 1, ground.base).double()

    def _update(self, ground: Ground, upload: Upload) -> Tensor:
        values = unpack(upload.payload, ground.base, self.outbox.layout, ground.digest)
        return values.double() - ground.base.double()

    def _carry(self, ground: Ground, upload: Upload, lie_D: Tensor) -> Upload:
        """An honest upload with another update, as many entries of it as the honest one had."""
        target = (ground.base.double() + lie_D).float()
        budget = self.outbox.spec.budget
        limited = budget.fraction is not None or budget.bits is not None
        count = None
        if limited:
            honest = unpack(upload.payload, ground.base, self.outbox.layout, ground.digest)
            count = entries_of(honest, ground.base)
        sent = self.outbox.send(target, ground.base, ground.digest, count)
        return replace(upload, payload=sent.payload, changed=count_changed(target, ground.base))


def _upload(data: bytes) -> Upload:
    return Upload.from_bytes(data, max_bytes=len(data))


def _kind(data: bytes) -> str:
    try:
        return kind_of(data)
    except WireError:
        return "nothing"
