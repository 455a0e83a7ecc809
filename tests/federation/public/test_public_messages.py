"""Round trips of shared answers, and what is refused of what others send."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.public.messages import Limits, Pool, Shown
from hanse.federation.wire.frame import WireError, encode_frame
from hanse.recipe.public import PublicSpec

LIMITS = Limits(problems=2, most=3, tokens=4)
SHOWN = Shown(5, 1, (3, 0), (((1, 2), (3,)), ()))
POOL = Pool(5, 2, (((1, 2), (3,)), ((70000,),)), (0, 1, 0))
answer = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4).map(tuple)


def counts(*values) -> bytes:
    return np.array(values, "<u4").tobytes()


def shown(*buffers, round=5, client=1) -> bytes:
    return encode_frame("shown", {"round": round, "client": client}, list(buffers))


def read(data: bytes) -> Shown:
    return Shown.from_bytes(data, LIMITS, 8)


def test_round_trips():
    assert read(SHOWN.to_bytes()) == SHOWN
    assert Pool.from_bytes(POOL.to_bytes(), LIMITS) == POOL
    assert POOL.offers_P == [[(0, (1, 2)), (1, (3,))], [(0, (70000,))]]


@given(st.lists(st.lists(answer, max_size=3).map(tuple), min_size=2, max_size=2).map(tuple))
def test_any_answers_make_the_round_trip(answers):
    peers = tuple(range(sum(map(len, answers))))
    pool = Pool(0, 0, answers, peers)
    assert Pool.from_bytes(pool.to_bytes(), LIMITS) == pool
    assert len(pool.to_bytes()) <= LIMITS.bytes


def test_small_ids_take_two_bytes_and_large_ones_four():
    small = len(Shown(5, 1, (1, 0), (((9,) * 4,), ())).to_bytes())
    large = len(Shown(5, 1, (1, 0), (((70000,) * 4,), ())).to_bytes())
    assert large - small in (8, 9)  # and a digit of a length


def test_limits_follow_from_the_recipe():
    spec = PublicSpec(problems=64, per_round=16, most=2)
    assert Limits.of_shown(spec, 6) == Limits(16, 2, 6)
    assert Limits.of_pool(spec, 6) == Limits(16, 8, 6)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        SHOWN.to_bytes()[:-1],
        POOL.to_bytes(),
        Shown(5, 1, (3,), (((1,),),)).to_bytes(),  # answers to one problem only
        Shown(5, 1, (9, 0), ((), ())).to_bytes(),  # more correct ones than a group has
        Shown(5, 1, (0, 0), (((1,),), ())).to_bytes(),  # more shown than correct
        Shown(5, 1, (4, 0), (((1,),) * 4, ())).to_bytes(),  # more than may be shown
        Shown(5, 1, (1, 0), (((1,) * 5,), ())).to_bytes(),  # too long
        Shown(5, 1, (1, 0), (((),), ())).to_bytes(),  # of no length
        shown(counts(1, 0), counts(1, 0), counts(2), b"\0" * 3),
        shown(counts(1, 0), counts(1, 0), counts(2**32 - 1), b"\0" * 4),
        shown(counts(1, 0), counts(1, 0), counts(1)),
        shown(counts(0, 0), counts(0, 0), counts(), b"", b""),
        shown(counts(0, 0), counts(0, 0), counts(), b"", round=-1),
        shown(counts(0, 0), b"\0", counts(), b""),
    ],
)
def test_what_is_refused(data):
    with pytest.raises(WireError):
        read(data)


def test_a_pool_names_a_peer_for_every_answer():
    with pytest.raises(WireError):
        Pool.from_bytes(Pool(5, 2, (((1,),), ()), ()).to_bytes(), LIMITS)


def test_sizes_are_checked_before_anything_is_read():
    with pytest.raises(WireError, match="bytes; expected"):
        read(b"\0" * (LIMITS.bytes + 1))
