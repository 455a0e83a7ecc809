"""Bytes that are no bundle, and bundles that no honest node would send: rounds must go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hanse.adversary.completions.base import Turn
from hanse.federation.wire.frame import encode_frame
from hanse.randomness import generator
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Bundle, Delivery, Tokens

Draws = np.random.Generator
ABSURD: tuple[object, ...] = (
    -1,
    1 << 63,
    1 << 80,
    1e308,
    True,
    None,
    "",
    "x" * 5000,
    [],
    {},
    [[[]]],
    "\ud800",
)
"""Values that some field does not expect."""


def garbage(spec: CompletionAttackSpec, turn: Turn) -> list[Delivery] | bytes:
    """One of several kinds, another one every round."""
    draws = generator(turn.seed, "garbage", turn.node)
    return KINDS[int(draws.integers(len(KINDS)))](turn, draws)


def _noise(turn: Turn, draws: Draws) -> bytes:
    return draws.bytes(int(draws.integers(0, 4096)))


def _honest(turn: Turn) -> bytes:
    return Bundle(turn.round, turn.node, tuple(turn.honest())).to_bytes()


def _damaged(turn: Turn, draws: Draws) -> bytes:
    data = bytearray(_honest(turn))
    for place in draws.integers(0, len(data), 8):
        data[place] ^= int(draws.integers(1, 256))
    return bytes(data)


def _cut(turn: Turn, draws: Draws) -> bytes:
    data = _honest(turn)
    return data[: int(draws.integers(0, len(data)))]


def _swollen(turn: Turn, draws: Draws) -> bytes:
    return _honest(turn) + draws.bytes(int(draws.integers(1, 4096)))


def _absurd_fields(turn: Turn, draws: Draws) -> bytes:
    fields: dict[str, object] = {"round": turn.round, "node": turn.node, "deliveries": []}
    for name in draws.permutation(list(fields))[: int(draws.integers(1, 4))]:
        fields[str(name)] = ABSURD[int(draws.integers(len(ABSURD)))]
    return encode_frame("bundle", fields)


def _absurd_headers(turn: Turn, draws: Draws) -> bytes:
    """A valid frame whose deliveries each have a wrong value, or too many or too few."""
    rows: list[list[object]] = []
    for _ in range(int(draws.integers(1, 64))):
        row: list[object] = ["p", 0, 0, "digest", "stop", "tokens", False]
        row[int(draws.integers(len(row)))] = ABSURD[int(draws.integers(len(ABSURD)))]
        rows.append(row[: int(draws.integers(5, 8))])
    fields = {"round": turn.round, "node": turn.node, "deliveries": rows}
    return encode_frame("bundle", fields, [draws.bytes(int(draws.integers(0, 64))) for _ in rows])


def _absurd_tokens(turn: Turn, draws: Draws) -> bytes:
    """Well-formed deliveries with ids of no vocabulary, none at all, far too many, or claims that are NaN."""
    kind = int(draws.integers(4))
    ids = ((0xFFFFFFFF,), (), (1,) * (64 * turn.max_new_tokens), (1, 1))[kind]
    claims = np.full(len(ids), np.nan, np.float32) if kind == 3 else None
    made = [replace(d, completion=Tokens(ids, claims)) for d in turn.honest()]
    return Bundle(turn.round, turn.node, tuple(made)).to_bytes()


def _strange(turn: Turn, draws: Draws) -> list[Delivery]:
    """A well-formed bundle of random tokens: problems nobody knows, slots of others, each one twice."""
    made = []
    for d in turn.honest():
        ids = tuple(draws.integers(0, turn.policy.vocabulary, int(draws.integers(1, 9))).tolist())
        strange = replace(d, completion=Tokens(ids), seed=int(draws.integers(1 << 62)), finish="length")
        kinds = (
            replace(strange, problem="no such"),
            replace(strange, slot=1 << 40),
            replace(strange, policy="none"),
            strange,
        )
        made += [kinds[int(draws.integers(len(kinds)))]] * 2
    return made


KINDS: tuple[Callable[[Turn, Draws], list[Delivery] | bytes], ...] = (
    _noise,
    _damaged,
    _cut,
    _swollen,
    _absurd_fields,
    _absurd_headers,
    _absurd_tokens,
    _strange,
)
