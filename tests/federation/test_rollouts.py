"""Rollouts shared among clients: by hand, what always holds, and what the parties say to one another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.messages import MAX_PROMPTS, Broadcast
from hanse.federation.rollouts import allotted, fewest_prompts, share_prompts, smoothed
from hanse.federation.signal import Signal
from hanse.federation.wire.frame import WireError
from tests.federation.fleet import LIMIT, Fleet
from tests.federation.test_client import SPEC
from tests.federation.test_server import server, upload


@pytest.mark.parametrize(
    ("shares", "each", "prompts"),
    [
        ([0.2, 0.4, 0.6, 0.6, 0.2], 32, [24, 32, 40, 40, 24]),
        ([0.5, 0.3, 0.2], 4, [5, 4, 3]),
        ([0.75, 0.25], 5, [6, 4]),
        ([1.0, 0.0, 0.0], 3, [5, 2, 2]),
        ([0.5, 0.5, 0.5], 4, [4, 4, 4]),
        ([0.5, None], 4, [4, 4]),
        ([0.9, None, 0.3], 4, [5, 4, 3]),
        ([0.0, 0.0], 8, [8, 8]),
        ([0.0, None], 8, [8, 8]),
        ([None, None], 8, [8, 8]),
        ([1.0, 0.0], 1, [1, 1]),
        ([0.3], 7, [7]),
    ],
)
def test_by_hand(shares, each, prompts):
    known = {k: share for k, share in enumerate(shares) if share is not None}
    assert list(share_prompts(range(len(shares)), known, each).values()) == prompts


maybe = st.one_of(st.none(), st.just(0.0), st.floats(0, 1))


@given(st.dictionaries(st.integers(0, 10**6), maybe, min_size=1, max_size=9), st.integers(1, 300))
def test_the_sum_and_the_floor_are_kept(given_shares, each):
    known = {k: share for k, share in given_shares.items() if share is not None}
    prompts = share_prompts(given_shares, known, each)
    assert sum(prompts.values()) == each * len(given_shares)
    assert min(prompts.values()) >= fewest_prompts(each) >= each / 2
    for a, b in zip(known, list(known)[1:], strict=False):
        assert (known[a] - known[b]) * (prompts[a] - prompts[b]) >= 0 or abs(prompts[a] - prompts[b]) <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9), st.integers(1, 300), st.randoms())
def test_the_order_of_clients_does_not_matter(shares, each, random):
    clients = list(range(len(shares)))
    random.shuffle(clients)
    shuffled = {k: shares[k] for k in clients}
    assert share_prompts(clients, shuffled, each) == share_prompts(
        sorted(clients), dict(enumerate(shares)), each
    )


def signal(informative: int, groups: int) -> Signal:
    return Signal(0.5, 0.25, groups, informative, 10)


def test_shares_are_smoothed_and_absent_clients_keep_theirs():
    first = smoothed({}, {0: signal(1, 4), 1: signal(4, 4)})
    assert first == {0: 0.25, 1: 1.0}
    second = smoothed(first, {0: signal(3, 4), 1: signal(0, 0), 2: signal(1, 2)})
    assert second == {0: 0.5, 1: 1.0, 2: 0.5}
    assert first == {0: 0.25, 1: 1.0}


def test_nothing_is_allotted_where_clients_follow_their_own_recipe():
    assert allotted("equal", [0, 1], {0: 1.0}, 8) == {}
    assert allotted("informative", [0, 1], {0: 1.0, 1: 0.0}, 8) == {0: 12, 1: 4}


def prompts_sent(s) -> list[int | None]:
    return [Broadcast.from_bytes(m, max_bytes=LIMIT).prompts for m in s.open_round().values()]


def test_a_server_shares_by_what_accepted_uploads_say():
    s = server([0.0, 0.0], 3, rollouts="informative")
    s.prompts = 4
    opened = Broadcast.from_bytes(s.open_round()[0], max_bytes=LIMIT)
    assert opened.prompts == 4
    good = {k: upload(opened, k, s.state.master, signal=signal(n, 4)) for k, n in enumerate((4, 0))}
    s.close_round(good | {2: b"damaged"})
    assert s.state.informative == {0: 1.0, 1: 0.0}
    assert prompts_sent(s) == [6, 2, 4]
    assert prompts_sent(s) == [6, 2, 4]
    assert prompts_sent(server([0.0])) == [None, None]


def test_clients_sample_what_they_were_allotted():
    fleet = Fleet(rollouts="informative")
    fleet.server.prompts = SPEC.prompts_per_step
    fleet.server.state.informative = {0: 1.0, 1: 0.0}
    rows = {}

    def send(messages):
        answers = {k: fleet.world.train(fleet.clients[k], m) for k, m in messages.items()}
        rows.update({k: [row["rollouts"] for row in steps] for k, (_, steps) in answers.items()})
        return {k: data for k, (data, _) in answers.items()}

    fleet.round(send)
    each, steps = SPEC.prompts_per_step, SPEC.local_steps
    assert each == 3
    assert rows == {0: [4 * SPEC.group_size] * steps, 1: [2 * SPEC.group_size] * steps}
    assert [fleet.clients[k].state.cursor for k in (0, 1)] == [4 * steps, 2 * steps]


@pytest.mark.parametrize("prompts", [0, -1, MAX_PROMPTS + 1, True, 1.0, "3"])
def test_impossible_allotments_are_refused(prompts):
    opened = Broadcast.from_bytes(server([0.0]).open_round()[0], max_bytes=LIMIT)
    assert opened.prompts is None
    with pytest.raises(WireError, match="prompts"):
        Broadcast.from_bytes(replace(opened, prompts=prompts).to_bytes(), max_bytes=LIMIT)
    for most in (1, MAX_PROMPTS):
        again = Broadcast.from_bytes(replace(opened, prompts=most).to_bytes(), max_bytes=LIMIT)
        assert again.prompts == most


def test_a_client_whose_recipe_shares_nothing_refuses_an_allotment():
    fleet = Fleet()
    opened = Broadcast.from_bytes(fleet.server.open_round()[0], max_bytes=LIMIT)
    with pytest.raises(WireError, match="allots prompts"):
        fleet.answer(0, replace(opened, prompts=2).to_bytes())
