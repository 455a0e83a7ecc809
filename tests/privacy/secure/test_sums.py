"""The protocol among parties: who may drop out when, and what a party never does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hanse.privacy.secure.masks import add_mask, sign_of
from hanse.privacy.secure.party import Party
from hanse.privacy.secure.primitives import join_secret
from hanse.privacy.secure.protocol import (
    Keys,
    ProtocolError,
    Revealed,
    Secrets,
    context_of,
    pair_mask,
    self_mask,
)
from hanse.privacy.secure.tally import RejectedSum
from tests.privacy.secure.sums import CONTEXT, Sum, seeded


@pytest.mark.parametrize(("clients", "degree"), [(3, None), (5, None), (9, 4), (12, 6)])
def test_masks_leave_nothing_behind(clients, degree):
    one = Sum(clients, degree=degree).deal().mask().reveal()
    assert one.tally.unmask().tolist() == one.expected()


@pytest.mark.parametrize("stage", ["deal", "mask", "reveal"])
def test_two_of_six_may_drop_out_at_any_stage(stage):
    one, gone = Sum(6), [1, 4]
    one.deal(gone if stage == "deal" else ()).mask(gone if stage == "mask" else ())
    one.reveal(gone if stage == "reveal" else ())
    assert one.tally.unmask().tolist() == one.expected(gone if stage != "reveal" else ())


def test_drop_outs_at_different_stages_add_up_to_a_sum_over_the_living():
    one = Sum(9).deal([0]).mask([3]).reveal([7])
    assert one.tally.unmask().tolist() == one.expected([0, 3])


def test_on_a_ring_neighbours_stand_in():
    one = Sum(12, degree=8).deal([0]).mask([5]).reveal()
    assert one.tally.unmask().tolist() == one.expected([0, 5])


@pytest.mark.parametrize("stage", ["deal", "mask", "reveal"])
def test_three_of_six_are_too_many(stage):
    one, gone = Sum(6), [0, 1, 4]
    with pytest.raises(RejectedSum):
        one.deal(gone if stage == "deal" else ()).mask(gone if stage == "mask" else ())
        one.reveal(gone if stage == "reveal" else ()).tally.unmask()
        pytest.fail("a sum below the threshold")


def test_two_living_are_never_enough():
    with pytest.raises(RejectedSum, match="2 of 3 clients sent a vector; 3 are needed"):
        Sum(3, share=0.51).deal().mask([0]).reveal()


def test_without_one_share_more_a_mask_stays_on():
    one = Sum(6).deal().mask().reveal(without=[0, 1, 2])
    with pytest.raises(RejectedSum, match="3 true shares of client 0; 4 are needed"):
        one.tally.unmask()


def test_false_shares_are_told_from_true_ones_and_done_without():
    told = {}

    def lie(k, revealed):
        return Revealed({v: bytes(32) for v in revealed.seeds}, revealed.keys) if k == 2 else revealed

    one = Sum(5).deal().mask()
    for k, whose in one.tally.requests().items():
        one.parties[k], revealed = one.parties[k].reveal(*whose)
        told[k] = one.tally.reveal(k, lie(k, revealed))
    assert told == {0: [], 1: [], 2: [0, 1, 2, 3, 4], 3: [], 4: []}
    assert one.tally.unmask().tolist() == one.expected()


def test_a_dealer_of_another_secret_is_named():
    one = Sum(5)
    liar = one.parties[3]
    one.parties[3] = replace(liar, secrets=replace(liar.secrets, mask=bytes([7] * 32)))
    one.deal().mask([3]).reveal()
    with pytest.raises(RejectedSum, match="client 3 dealt shares of something else"):
        one.tally.unmask()


def test_a_party_never_reveals_both_secrets_of_a_peer():
    one = Sum(5).deal().mask()
    party = one.parties[0]
    with pytest.raises(ProtocolError, match="asks for other clients' shares"):
        party.reveal([0, 1, 2, 3, 4], [3])
    with pytest.raises(ProtocolError, match="asks for other clients' shares"):
        party.reveal([1, 2, 3, 4], [0])
    after, _ = party.reveal([0, 1, 2, 3], [4])
    with pytest.raises(ProtocolError, match="does not belong after the stage 'over'"):
        after.reveal([0, 1, 2, 3, 4], [])
    assert (after.secrets, after.own, after.sealed) == (Secrets(b"", b"", b""), b"", {})


def test_what_a_party_reveals_by_hand():
    one = Sum(5).deal().mask([4])
    _, revealed = one.parties[1].reveal([0, 1, 2, 3], [4])
    assert (set(revealed.seeds), set(revealed.keys)) == ({0, 1, 2, 3}, {4})


def test_a_party_fails_closed():
    one = Sum(6).deal()
    sealed = one.tally.deliveries()[0]
    few = {k: sealed[k] for k in (1, 2)}
    words = one.vectors[0].copy()
    with pytest.raises(ProtocolError, match="a sum over 3 clients; the fewest are 4"):
        one.parties[0].mask(words, few)
    assert np.array_equal(words, one.vectors[0])
    with pytest.raises(ProtocolError, match="others than its peers"):
        one.parties[0].mask(words, sealed | {9: sealed[1]})
    masked = one.mask().parties[0]
    with pytest.raises(ProtocolError, match="a sum over 3 clients"):
        masked.reveal([0, 1, 2], [3, 4, 5])


def test_bad_peers_are_refused():
    party = Party(0, CONTEXT, Secrets.fresh(seeded("a")))
    others = {k: Secrets.fresh(seeded(k)).public for k in (1, 2)}
    with pytest.raises(ProtocolError, match="a sum over 2 clients hides nothing"):
        party.deal({1: others[1]}, 2)
    with pytest.raises(ProtocolError, match="names a key twice"):
        party.deal({1: others[1], 2: others[1]}, 2)
    with pytest.raises(ProtocolError, match="a key of client 2 that is none"):
        party.deal({1: others[1], 2: Keys(bytes(32), others[2].mask)}, 2)


def test_shares_that_do_not_open_are_left_out():
    one = Sum(5).deal()
    damaged = one.tally.deliveries()[0] | {2: bytes(80)}
    party = one.parties[0].mask(one.vectors[0].copy(), damaged)
    _, revealed = party.reveal([0, 1, 2, 3, 4], [])
    assert set(revealed.seeds) == {0, 1, 3, 4}


def test_the_same_secrets_make_other_masks_in_another_round():
    first, second = Sum(3).deal().mask(), Sum(3, context=context_of(2, "base")).deal().mask()
    same = Sum(3).deal().mask()
    assert np.array_equal(first.masked[0], same.masked[0])
    assert not (first.masked[0] == second.masked[0]).any()


def test_a_vector_counts_once():
    one = Sum(3).deal().mask()
    with pytest.raises(ProtocolError, match="nobody asked for"):
        one.tally.add(0, one.masked[0])


def stories(clients: int, share: float) -> list[int] | None:
    """The vector of client 0 as a server gets it that tells it of too few peers, and each of the others that
    as many of these as it may have dropped out; None where that does not give shares enough."""
    one = Sum(clients, share).deal()
    needed, sealed, bare = one.tally.needed[0], one.tally.deliveries(), one.vectors[0].copy()
    peers, told, seed = range(1, needed), {j: {} for j in range(1, needed)}, {}
    one.parties[0].mask(bare, {j: sealed[0][j] for j in peers})
    for k in range(1, clients):
        party = one.parties[k].mask(one.vectors[k].copy(), sealed[k])
        scarce = sorted((j for j in peers if j != k), key=lambda j: (len(told[j]), j))
        gone = sorted(scarce[: clients - needed])
        _, revealed = party.reveal([j for j in range(clients) if j not in gone], gone)
        seed[k] = revealed.seeds[0]
        for j in gone:
            told[j][k] = revealed.keys[j]
    if min(map(len, told.values())) < needed:
        return None
    secret = join_secret(dict(list(seed.items())[:needed]))
    add_mask(bare, self_mask(CONTEXT, secret, 0), -1)
    for j in peers:
        secret = join_secret(dict(list(told[j].items())[:needed]))
        add_mask(bare, pair_mask(CONTEXT, secret, one.tally.keys[0].mask, 0, j), -sign_of(0, j))
    return bare.tolist()


@pytest.mark.parametrize("clients", [5, 8, 10, 12])
def test_different_stories_for_each_client_do_not_lay_one_bare(clients):
    assert stories(clients, 2 / 3) is None


def test_different_stories_do_where_half_of_the_holders_suffice():
    """What the advice on thresholds is about."""
    assert stories(10, 0.51) == Sum(10).vectors[0].tolist()
