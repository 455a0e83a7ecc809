"""The sum as the server gets it: exact to the stated error, over the living, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.federation.secure.messages import Advert, Masked, Shares
from hanse.federation.secure.session import Desk
from hanse.federation.wire.frame import encode_frame
from tests.federation.secure.crowd import ENTRIES, STAGES, Crowd


def silent(stage: str, *clients: int):
    """Clients that do not answer from this stage on."""
    late = STAGES[STAGES.index(stage) :]
    return lambda kind, client, reply: None if kind in late and client in clients else reply


@pytest.mark.parametrize("bits", [12, 24, 40])
def test_the_sum_is_within_its_stated_error_of_the_plain_mean(bits):
    crowd = Crowd(bits=bits)
    record = crowd.round()
    assert crowd.missed(record) <= 1
    assert record.secure.step == pytest.approx(0.5 / (2 ** (bits - 1) - 1))
    assert record.weights == pytest.approx({k: (10 + k) / 60 for k in range(5)})
    assert [s.reason for s in record.screened] == [None] * 5


def test_coarse_steps_show():
    """The stated error is not far above what really happens, so the test above can fail."""
    crowd = Crowd(bits=12)
    assert crowd.missed(crowd.round()) > 0.2


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("gone", [(1,), (0, 4)])
def test_drop_outs_up_to_the_threshold_leave_the_sum_of_the_living(stage, gone):
    crowd = Crowd(6)
    record = crowd.round(silent(stage, *gone))
    left_out = () if stage == STAGES[-1] else gone
    assert set(record.weights) == set(range(6)) - set(left_out)
    assert sum(record.weights.values()) == pytest.approx(1)
    assert crowd.missed(record, left_out) <= 1


@pytest.mark.parametrize("stage", STAGES)
def test_more_of_them_and_the_model_is_kept(stage):
    crowd = Crowd(6)
    record = crowd.round(silent(stage, 0, 2, 4))
    assert record.weights == {}
    assert crowd.server.state.master.abs().max() == 0
    assert "needed" in record.secure.rejected
    assert sum(n for reason, n in crowd.server.state.ledger.items() if reason.startswith("secure sum")) == 1
    assert crowd.missed(crowd.round()) <= 1
    assert crowd.server.state.round == 3


def test_drop_outs_are_counted_with_a_reason():
    crowd = Crowd(6)
    record = crowd.round(silent(STAGES[2], 3))
    assert crowd.server.state.ledger == {"client 3: dropped out of a secure sum": 1}
    assert [s.reason for s in record.screened if s.client == 3] == ["dropped out of a secure sum"]


def test_bytes_count_all_stages():
    crowd = Crowd()
    record = crowd.round()
    assert set(crowd.asked) == set(STAGES)
    assert record.bytes_down == sum(len(m) for asked in crowd.asked.values() for m in asked.values())
    assert record.bytes_up == sum(len(m) for heard in crowd.heard.values() for m in heard.values())


def test_on_a_ring_of_neighbours_the_sum_is_the_same():
    crowd = Crowd(12, neighbours=6)
    assert crowd.missed(crowd.round(silent(STAGES[2], 5)), (5,)) <= 1


def test_two_with_all_the_weight_would_hide_nobody():
    """A sum over them and clients of no weight is a sum over two: it is rejected before it is unmasked."""
    crowd = Crowd(6)
    crowd.samples = {0: 10, 1: 10, 2: 10} | dict.fromkeys(range(3, 6), 0)
    assert set(crowd.round().weights) == set(range(6))
    record = crowd.round(silent(STAGES[2], 0))
    assert record.secure.rejected == "2 living clients have any weight; 3 are needed"
    assert STAGES[3] not in crowd.asked


def test_where_nobody_has_weight_all_count_alike():
    crowd = Crowd(3)
    crowd.samples = dict.fromkeys(range(3), 0)
    assert crowd.round().weights == pytest.approx(dict.fromkeys(range(3), 1 / 3))


def test_what_one_client_can_do_is_bounded_by_the_range():
    """It cuts its own entries before it masks them, and the server rejects a mean beyond the range."""
    crowd = Crowd(4)
    crowd.updates[2] = torch.full((ENTRIES,), 1e9)
    record = crowd.round()
    crowd.updates[2] = torch.full((ENTRIES,), 0.5)
    assert crowd.missed(record) <= 1


def test_a_vector_that_is_not_masked_as_agreed_is_noise_and_rejected():
    def lie(kind, client, reply):
        return Masked(1, client, bytes(4 * ENTRIES)).to_bytes() if (kind, client) == (STAGES[2], 1) else reply

    crowd = Crowd()
    record = crowd.round(lie)
    assert "none of the addends" in record.secure.rejected
    assert crowd.server.state.master.abs().max() == 0


def test_lying_about_shares_is_one_clients_refusal_or_one_rejected_round():
    def deal_to_others(kind, client, reply):
        if (kind, client) != (STAGES[1], 1):
            return reply
        offer = Shares.from_bytes(reply).offer
        return Shares(1, 1, replace(offer, sealed={0: offer.sealed[0]})).to_bytes()

    crowd = Crowd()
    record = crowd.round(deal_to_others)
    assert crowd.server.state.ledger == {"client 1: deals to others than its neighbours": 1}
    assert crowd.missed(record, (1,)) <= 1

    def deal_rubbish(kind, client, reply):
        if (kind, client) != (STAGES[1], 1):
            return reply
        offer = Shares.from_bytes(reply).offer
        return Shares(1, 1, replace(offer, sealed=dict.fromkeys(offer.sealed, bytes(80)))).to_bytes()

    crowd = Crowd()
    record = crowd.round(deal_rubbish)
    assert record.secure.rejected == "1 true shares of client 1; 4 are needed"


@pytest.mark.parametrize("stage", STAGES)
@settings(max_examples=12)
@given(garbage=st.binary(max_size=200), start=st.integers(0, 60))
def test_garbage_at_any_stage_is_one_clients_refusal(stage, garbage, start):
    def damage(kind, client, reply):
        if (kind, client) != (stage, 2):
            return reply
        return reply[:start] + garbage + reply[start + len(garbage) + 1 :]

    crowd = Crowd()
    record = crowd.round(damage)
    left_out = () if stage == STAGES[-1] else (2,)
    assert crowd.missed(record, left_out) <= 1
    assert sum(crowd.server.state.ledger.values()) == 1


def frames():
    kinds = st.sampled_from(
        ["secure-advert", "secure-shares", "secure-masked", "secure-unmask", "secure-refusal", "upload"]
    )
    ids = st.lists(st.integers(-1, 6), max_size=6)
    values = st.one_of(ids, st.integers(-1, 3), st.text(max_size=5), st.booleans(), st.none())
    names = ("round", "client", "peers", "holders", "seeds", "keys", "seeded", "reason")
    fields = st.fixed_dictionaries({}, optional=dict.fromkeys(names, values))
    buffers = st.lists(st.sampled_from([b"", bytes(32), bytes(80), bytes(128), bytes(384)]), max_size=3)
    return st.builds(encode_frame, kinds, fields, buffers)


@pytest.mark.parametrize("stage", STAGES)
@settings(max_examples=25)
@given(frame=frames())
def test_well_formed_nonsense_at_any_stage_never_ends_a_round(stage, frame):
    crowd = Crowd(4)
    record = crowd.round(lambda kind, client, reply: frame if (kind, client) == (stage, 2) else reply)
    assert (
        record.secure.rejected is not None or crowd.missed(record, () if 2 in record.weights else (2,)) <= 1
    )


def test_keys_of_another_client_are_refused():
    adverts = {}

    def copy(kind, client, reply):
        if kind == STAGES[0]:
            adverts[client] = Advert.from_bytes(reply)
            if client == 1:
                return replace(adverts[1], keys=adverts[0].keys).to_bytes()
        return reply

    crowd = Crowd()
    assert crowd.missed(crowd.round(copy), (1,)) <= 1
    assert crowd.server.state.ledger == {"client 1: has keys that are none, or another client's": 1}


def test_keys_from_a_seed_mark_the_round():
    crowd = Crowd()
    assert crowd.round().secure.seeded
    for k in crowd.updates:
        crowd.desks[k] = Desk(k, crowd.spec, crowd.layout)
    record = crowd.round()
    assert not record.secure.seeded
    assert len(record.weights) == 5


def test_a_sum_that_is_one_clients_update_stays_masked():
    """A count of samples is a client's own word, and one that says 2^39 would be the whole sum."""
    crowd = Crowd()
    crowd.samples[0] = 2**39
    record = crowd.round()
    assert record.secure.rejected == "1 living clients have any weight; 3 are needed"
    assert STAGES[3] not in crowd.asked
    assert crowd.server.state.master.abs().max() == 0


def test_what_rounding_has_drowned_is_no_update():
    """Three of 203 parts remain, in eight bits: 1/127 of the range a step, beside 3/203 of the weight."""
    crowd = Crowd(4, bits=8, threshold=0.75)
    crowd.samples = {0: 1, 1: 1, 2: 1, 3: 200}
    record = crowd.round(silent(STAGES[2], 3))
    assert "rounding drowns" in record.secure.rejected
    fine = Crowd(4, threshold=0.75)
    fine.samples = crowd.samples
    assert fine.missed(fine.round(silent(STAGES[2], 3)), (3,)) <= 1
