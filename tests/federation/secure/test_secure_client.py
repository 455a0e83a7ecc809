"""A client's own guards: whatever the server asks for, an update leaves masked, once."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from hanse.federation.messages import Grant
from hanse.federation.records import ServerState
from hanse.federation.secure.client import SecureClient
from hanse.federation.secure.memory import pack_session, unpack_session
from hanse.federation.secure.messages import Delivery, Invitation, Masked, Refusal, Request
from hanse.federation.secure.server import SecureServer
from hanse.federation.wire.frame import WireError, kind_of
from hanse.recipe.secure import Reach
from tests.federation.fleet import Fleet
from tests.federation.secure.crowd import STAGES, Crowd
from tests.federation.test_client import SPEC


class SecureFleet(Fleet):
    """Real clients that train, and a server that sees sums."""

    def _client(self, index: int):
        plain = super()._client(index)
        return SecureClient(**{field.name: getattr(plain, field.name) for field in fields(plain)})

    def serve(self, state: ServerState) -> SecureServer:
        spec, layout = self.world.federation, self.world.layout(self.dtype)
        reach = Reach.of(spec.secure, SPEC)
        return SecureServer(
            spec, layout, list(self.clients), state, reach=reach, seed=self.seed, group_size=SPEC.group_size
        )


def fleet(dtype: str = "float32", **federation) -> SecureFleet:
    return SecureFleet(4, dtype, secure={"enabled": True}, **federation)


def refused(crowd: Crowd, client: int, data: bytes) -> str:
    return Refusal.from_bytes(crowd.answer(client, data)).reason


@pytest.mark.parametrize("weighting", ["samples", "uniform", "reward-std"])
def test_a_secure_federation_trains_as_a_plain_one_does(weighting):
    secure, plain = fleet(weighting=weighting), Fleet(4, "float32", weighting=weighting)
    for _ in range(2):
        record, other = secure.round(), plain.round()
        assert record.weights == pytest.approx(other.weights)
        stated = record.secure.living * record.secure.step / 2
        ours, theirs = secure.server.state.master, plain.server.state.master
        rounding = 2.0**-22 * float(theirs.abs().max())
        assert float((ours - theirs).abs().max()) <= stated + rounding
        plain.server.state.master = ours.clone()
        assert secure.server.state.reward_mean == plain.server.state.reward_mean


def test_what_a_round_says():
    talk = fleet()
    talk.round()
    kinds = [{kind for side in said for kind in side} for said in talk.spoken]
    assert kinds == [
        {"broadcast", "secure-advert"},
        {"secure-invitation", "secure-shares"},
        {"secure-delivery", "secure-masked"},
        {"secure-request", "secure-unmask"},
    ]


def test_no_update_of_a_real_client_is_beyond_the_range_of_adam():
    talk = fleet()
    talk.answer(0, talk.server.open_round()[0])
    state = talk.clients[0].state
    moved = float((state.trained.target - state.base).abs().max())
    reach = talk.server.reach.over(float(state.base.abs().max()))
    assert 0.2 * reach < moved <= reach


def test_bfloat16_updates_are_not_cast():
    """The server's step is the mean of float32 changes: finer than what bfloat16 uploads tell."""
    talk = fleet("bfloat16")
    talk.round()
    moved = talk.server.state.master - talk.world.master.bfloat16().float()
    assert not torch.equal(moved, moved.bfloat16().float())


def test_a_grant_does_not_make_a_client_send_a_bare_update():
    talk = fleet()
    talk.answer(0, talk.server.open_round()[0])
    with pytest.raises(WireError, match="leave masked and whole"):
        talk.answer(0, Grant(1, 0, 5).to_bytes())


def test_repeated_questions_get_the_same_bytes():
    crowd = Crowd()
    crowd.round()
    for stage in STAGES[1:]:
        assert crowd.answer(1, crowd.asked[stage][1]) == crowd.heard[stage][1]


def test_a_second_request_for_other_survivors_is_refused():
    crowd = Crowd()
    crowd.round()
    other = Request(1, 0, [0, 1, 2, 3], [4]).to_bytes()
    assert refused(crowd, 0, other) == "a second secure-request in the same round"


def test_a_second_delivery_or_invitation_in_a_round_is_refused():
    crowd = Crowd()
    crowd.round()
    asked = Invitation.from_bytes(crowd.asked[STAGES[1]][0])
    assert "a second" in refused(crowd, 0, replace(asked, weight=0.5).to_bytes())
    sealed = Delivery.from_bytes(crowd.asked[STAGES[2]][0])
    fewer = {k: one for k, one in sealed.sealed.items() if k != 4}
    assert "a second" in refused(crowd, 0, replace(sealed, sealed=fewer).to_bytes())


def test_questions_out_of_turn_or_for_others_are_refused():
    crowd = Crowd()
    crowd.round()
    questions = {stage: crowd.asked[stage] for stage in STAGES[1:]}
    fresh = Crowd()
    fresh.answer(0, crowd.asked[STAGES[0]][0])
    assert "stage 'keys'" in refused(fresh, 0, questions[STAGES[3]][0])
    assert "does not hold" in refused(fresh, 0, questions[STAGES[2]][0])
    assert "client 1 in round 1" in refused(fresh, 0, questions[STAGES[1]][1])


def test_terms_that_hide_nothing_are_refused():
    crowd = Crowd(range=0.5)
    crowd.round()
    asked = Invitation.from_bytes(crowd.asked[STAGES[1]][0])
    fresh = Crowd(range=0.5)
    fresh.answer(0, crowd.asked[STAGES[0]][0])
    alone = replace(asked, peers={1: asked.peers[1]}, addends=2)
    assert "hides nothing" in refused(fresh, 0, alone.to_bytes())
    assert "another range" in refused(fresh, 0, replace(asked, reach=0.25).to_bytes())
    assert "4 peers where 4" in refused(fresh, 0, replace(asked, addends=4).to_bytes())
    assert "4 peers where 400" in refused(fresh, 0, replace(asked, addends=400).to_bytes())


def test_a_real_client_works_the_range_out_for_itself():
    """A range of its own for each client would cut some updates to nothing, and not that of one."""
    talk = fleet()

    def narrow(messages):
        if 0 in messages and kind_of(messages[0]) == STAGES[1]:
            asked = Invitation.from_bytes(messages[0])
            messages = {**messages, 0: replace(asked, reach=asked.reach / 2).to_bytes()}
        return talk.send(messages)

    reasons = {s.client: s.reason for s in talk.round(narrow).screened}
    assert reasons == {0: "refuses: names another range than the recipe", 1: None, 2: None, 3: None}


def test_a_round_whose_update_has_left_is_not_trained_again():
    talk = fleet()
    first = talk.server.open_round()
    talk.round()
    talk.clients[0].state = replace(talk.clients[0].state, base_digest="other")
    with pytest.raises(WireError, match="whose masked update has been sent"):
        talk.answer(0, first[0])


def test_a_client_that_lost_its_session_drops_out_and_comes_back():
    talk = fleet()

    def forgetful(messages):
        if kind_of(messages[0]) == STAGES[2]:
            talk.clients[3].state = replace(talk.clients[3].state, secure=None)
        return talk.send(messages)

    record = talk.round(forgetful)
    assert set(record.weights) == {0, 1, 2}
    assert "refuses: there is no secure sum" in record.screened[3].reason
    assert set(talk.round().weights) == {0, 1, 2, 3}


def test_captured_messages_of_a_real_client_do_not_hold_its_update():
    talk = fleet()
    talk.answer(1, talk.server.open_round()[1])
    state = talk.clients[1].state
    forms = [state.trained.target.numpy(), (state.trained.target - state.base).numpy()]
    talk.round()
    sent = b"".join(answers[1] for answers in talk.answered)
    assert Masked.from_bytes(talk.answered[2][1], size=4 * forms[0].size)
    assert not any(form[i : i + 2].tobytes() in sent for form in forms for i in range(0, 2000, 40))


@pytest.mark.parametrize("stage", STAGES)
def test_a_session_survives_on_disk_between_any_two_messages(stage):
    def restart(kind, client, reply):
        if kind == stage:
            packed = pack_session(crowd.sessions[client])
            assert unpack_session(packed) == crowd.sessions[client]
            crowd.sessions[client] = unpack_session(packed)
        return reply

    crowd = Crowd()
    assert crowd.missed(crowd.round(restart)) <= 1
    assert crowd.answer(1, crowd.asked[STAGES[2]][1]) == crowd.heard[STAGES[2]][1]


def test_no_secret_is_kept_of_a_round_that_is_over():
    crowd = Crowd()
    secrets = {}

    def note(kind, client, reply):
        if kind == STAGES[0]:
            secrets[client] = crowd.sessions[client].party.secrets
        return reply

    crowd.round(note)
    packed = pack_session(crowd.sessions[0])
    assert not any(part in packed for part in (secrets[0].seal, secrets[0].mask, secrets[0].seed))
