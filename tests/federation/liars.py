"""Clients that do not send what they learnt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from hanse.federation.messages import Payload, Upload
from hanse.federation.payload import pack_vector
from hanse.federation.wire.dense import encode_dense
from hanse.federation.wire.frame import kind_of
from tests.federation.fleet import LIMIT, Fleet

Lie = Callable[[Upload], Upload]


def lying(fleet: Fleet, lie: Lie, liar: int = 0):
    """A `send` in which one client's uploads are replaced."""

    def send(messages: Mapping[int, bytes]) -> dict[int, bytes]:
        answers = fleet.send(messages)
        if liar in answers and kind_of(answers[liar]) == "upload":
            upload = lie(Upload.from_bytes(answers[liar], max_bytes=LIMIT))
            answers = {**answers, liar: upload.to_bytes()}
        return answers

    return send


def values(sent: Tensor) -> Lie:
    return lambda upload: replace(upload, payload=Payload("values", encode_dense(sent, upload.dtype)))


def vector(name: str, value: float) -> Lie:
    """The same number in every entry of one of the local method's vectors."""

    def lie(upload: Upload) -> Upload:
        size = len(upload.extras[name]) // 4
        return replace(upload, extras={**upload.extras, name: pack_vector(torch.full((size,), value))})

    return lie


def signal(**fields) -> Lie:
    return lambda upload: replace(upload, signal=replace(upload.signal, **fields))
