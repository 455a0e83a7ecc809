"""Rounds that share answers, with real clients: what is said, what is believed, and what is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hanse.federation.client import Client
from hanse.federation.public.believing import believe, is_answer, weighed
from hanse.federation.public.client import PublicClient
from hanse.federation.public.messages import Limits, Pool, Shown
from hanse.federation.public.round import LEFT_OUT
from hanse.federation.public.server import PublicServer
from hanse.federation.public.swap import POOLED, Offer
from hanse.federation.server import ServerState
from hanse.federation.wire.frame import WireError, kind_of
from hanse.grpo.foreign import typical_weight
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.readings import read_completions
from hanse.tasks.problem import Problem
from tests.federation.fleet import Fleet
from tests.federation.test_client import SPEC, Ones, World

PUBLIC = [Problem(f"public-{i}", f"{i:03d}+{i:03d}=", "1") for i in range(6)]
OPTIONS = {"problems": 6, "per_round": 3, "most": 2, "below": 1.0, "correct": 0.25}
SHARED = [({"broadcast"}, {"shown"}), ({"pool"}, {"upload"})]
PLAIN = [({"broadcast"}, {"upload"})]


class PublicFleet(Fleet):
    """`scored`: the problems of each call of the scorer."""

    def __init__(self, clients: int = 3, public=None, **federation) -> None:
        self.scored: list[list[Problem]] = []
        options = {**OPTIONS, **(public or {})}
        super().__init__(clients, public=options, residual="discard", **federation)
        self.longest = SPEC.max_new_tokens

    def _client(self, index: int):
        plain = super()._client(index)
        names = (name for name in Client.__dataclass_fields__)
        return PublicClient(**{name: getattr(plain, name) for name in names}, public=PUBLIC)

    def serve(self, state: ServerState):
        tools = (self.world.federation, self.world.layout(self.dtype), list(self.clients), state)
        settings = {"seed": self.seed, "group_size": SPEC.group_size}
        return PublicServer(*tools, size=SPEC.group_size, longest=SPEC.max_new_tokens, **settings)

    def answer(self, index: int, data: bytes) -> bytes:
        return self.reply(index, data)[0]

    def reply(self, index: int, data: bytes):
        fleet = self

        class Noting(Ones):
            def score(self, problems_N, *rest, **more):
                fleet.scored.append(list(problems_N))
                return super().score(problems_N, *rest, **more)

        return self.clients[index].answer(data, self.world.sampler, Noting(), self.world.learner)

    def shown(self, index: int) -> Shown:
        limits = Limits.of_shown(self.world.federation.public, self.longest)
        return Shown.from_bytes(self.answered[0][index], limits, SPEC.group_size)

    def pool(self, index: int) -> Pool:
        limits = Limits.of_pool(self.world.federation.public, self.longest)
        return Pool.from_bytes(self.sent[1][index], limits)


def lying(fleet: PublicFleet, liar: int, say):
    """Carries messages; `say` makes of the liar's Shown what is heard."""

    def send(messages):
        replies = fleet.send(messages)
        if kind_of(messages[liar]) == "broadcast":
            return replies | {liar: say(fleet.shown(liar))}
        return replies

    return send


@pytest.mark.parametrize(
    ("budget", "last"),
    [
        ({}, [({"pool"}, {"upload"})]),
        ({"fraction": 0.5}, [({"pool"}, {"report"}), ({"grant"}, {"upload"})]),
    ],
)
def test_exchanges_of_a_round_and_their_bytes(budget, last):
    fleet = PublicFleet(public={"every": 2}, budget=budget)
    for shares in (False, True, False, True):
        record = fleet.round()
        started = [({"broadcast"}, {"shown"})] if shares else [({"broadcast"}, last[0][1])]
        assert fleet.spoken == started + (last if shares else last[1:])
        assert [s.reason for s in record.screened] == [None] * 3
        assert record.bytes_up == sum(len(m) for up in fleet.answered for m in up.values())
        assert record.bytes_down == sum(len(m) for down in fleet.sent for m in down.values())
        assert (record.public is not None) == shares
    assert record.public is not None
    assert record.public.shown > 0
    assert record.public.bytes_up == sum(len(m) for m in fleet.answered[0].values())
    assert record.public.bytes_down == sum(len(m) for m in fleet.sent[1].values())


def test_peers_answers_take_the_place_of_wrong_ones():
    fleet, rows = PublicFleet(), {}
    talk = fleet.server.converse()
    messages = next(talk)
    messages = talk.send({k: fleet.answer(k, m) for k, m in messages.items()})
    for k, data in messages.items():
        _, rows[k] = fleet.reply(k, data)
    assert all(len(own) == 1 for own in rows.values())
    swapped = {k: own[0]["public/swapped"] for k, own in rows.items()}
    assert sum(swapped.values()) > 0
    assert all(0 < own[0]["public/weight"] <= 1 for k, own in rows.items() if swapped[k])
    assert all("public/grad_norm" in own[0] for own in rows.values())


def test_answers_matter_and_without_any_all_is_as_with_own_ones_alone():
    def uploads(**public):
        fleet = PublicFleet(public=public)
        fleet.round()
        return fleet, [bytes(fleet.upload(k).payload.data) for k in range(3)]

    alone, own = uploads(most=0)
    assert alone.spoken == PLAIN
    nobody, none = uploads(correct=2.0)  # no reward is that high
    assert nobody.spoken == SHARED
    assert none == own
    assert all(one != other for one, other in zip(uploads()[1], own, strict=True))


def test_private_prompts_are_not_touched():
    fleet = PublicFleet()
    fleet.round()
    public = {p.id for p in PUBLIC}
    private = {p.id for client in fleet.clients.values() for p in client.problems}
    assert not public & private
    calls = [{p.id for p in call} for call in fleet.scored]
    assert all(call <= public or call <= private for call in calls)
    first = calls[: SPEC.local_steps + 1]  # of client 0: its own steps, then the public problems
    assert [call <= private for call in first] == [True] * SPEC.local_steps + [False]
    after = calls[3 * (SPEC.local_steps + 1) :]  # once pools have come
    assert after and all(call <= public for call in after)


def test_shown_is_what_was_sampled_for_public_problems_and_no_word_more():
    fleet = PublicFleet()
    fleet.round()
    for k in range(3):
        shown = fleet.shown(k)
        assert set(Shown.__dataclass_fields__) == {"round", "client", "right_P", "answers_P"}
        for right, own in zip(shown.right_P, shown.answers_P, strict=True):
            assert len(own) == min(right, OPTIONS["most"])
            for text in fleet.world.sampler.policy.decode(own):
                assert "1" in text  # correct by the scorer


def test_pools_are_of_others_bounded_and_for_those_who_lack_answers():
    fleet = PublicFleet(5, public={"below": 0.5, "most": 1})
    fleet.round()
    for k in range(5):
        pool = fleet.pool(k)
        assert k not in pool.peers_N
        for right, offered in zip(fleet.shown(k).right_P, pool.offers_P, strict=True):
            assert len(offered) <= POOLED
            assert right < 2 or offered == []
            assert len({peer for peer, _ in offered}) == len(offered)  # one of each at most
            for peer, ids in offered:
                assert any(ids in own for own in fleet.shown(peer).answers_P)


def test_the_order_of_replies_does_not_matter():
    one, other = PublicFleet(), PublicFleet()
    one.round()
    other.round(lambda messages: dict(reversed(other.send(messages).items())))
    assert one.sent == other.sent
    assert torch.equal(one.server.state.master, other.server.state.master)


def test_repeated_messages_get_the_same_bytes_and_no_work():
    fleet = PublicFleet()
    fleet.round()
    state, calls = fleet.clients[1].state, len(fleet.scored)
    assert fleet.reply(1, fleet.sent[0][1]) == (fleet.answered[0][1], [])
    assert fleet.reply(1, fleet.sent[1][1]) == (fleet.answered[1][1], [])
    assert fleet.clients[1].state is state
    assert len(fleet.scored) == calls


def test_clients_that_take_turns_in_one_model_do_not_mix():
    """Alone between its two messages, or with others in between: the same upload."""
    fleet, alone = PublicFleet(), PublicFleet()
    fleet.round()
    first = alone.answer(2, fleet.sent[0][2])
    assert first == fleet.answered[0][2]
    assert alone.answer(2, fleet.sent[1][2]) == fleet.answered[1][2]


def test_a_peer_that_calls_wrong_answers_correct_is_found_out_and_gains_nothing():
    def wrong(shown: Shown) -> bytes:
        zero = fleet.world.sampler.policy.encode("0")[0]
        ids = (zero,) * SPEC.max_new_tokens
        return replace(shown, right_P=(2,) * 3, answers_P=((ids, ids),) * 3).to_bytes()

    def nothing(shown: Shown) -> bytes:
        return replace(shown, right_P=(2,) * 3, answers_P=((),) * 3).to_bytes()

    fleet = PublicFleet(public={"below": 0.75})
    fleet.round(lying(fleet, 0, wrong))
    repeated = PublicFleet(public={"below": 0.75})
    repeated.round(lying(repeated, 0, nothing))
    assert 0 in fleet.pool(1).peers_N
    assert fleet.answered[1][1] == repeated.answered[1][1]
    fresh = PublicFleet(public={"below": 0.75})
    fresh.answer(1, fleet.sent[0][1])
    _, rows = fresh.reply(1, fleet.sent[1][1])
    assert rows[0][f"{LEFT_OUT}0"] == sum(peer == 0 for peer in fleet.pool(1).peers_N)


@pytest.mark.parametrize("data", [b"", b"no message", Shown(1, 2, (0,) * 3, ((),) * 3).to_bytes()])
def test_what_cannot_be_read_is_counted_and_named_and_ends_nothing(data):
    fleet = PublicFleet()
    record = fleet.round(lying(fleet, 0, lambda shown: data))
    assert record.public is not None
    assert [client for client, _ in record.public.refused] == [0]
    assert set(record.weights) == {0, 1, 2}
    assert 0 not in fleet.pool(1).peers_N
    (line,) = fleet.server.state.ledger
    assert line.startswith("client 0: public answers: ")


def test_a_client_without_a_pool_has_lost_the_round_and_nothing_else():
    fleet = PublicFleet()
    start = fleet.clients[1].state
    fleet.answer(1, fleet.server.open_round()[1])
    state = fleet.clients[1].state
    assert state.round == 1
    assert state.learner is start.learner
    assert state.cursor == start.cursor
    fleet.round()
    record = fleet.round()
    assert 1 in record.weights


def test_pools_that_nobody_asked_for_are_refused():
    fleet = PublicFleet(public={"every": 2})
    fleet.round()
    for client, round in ((1, 1), (0, 1), (1, 2)):
        with pytest.raises(WireError, match="pool"):
            fleet.answer(1, Pool(round, client, ((),) * 3, ()).to_bytes())


def test_a_silent_client_is_asked_for_nothing_more():
    fleet = PublicFleet()
    fleet.silent = {2}
    record = fleet.round()
    assert set(fleet.sent[1]) == {0, 1}
    assert set(record.weights) == {0, 1}


def test_who_can_have_written_an_answer():
    policy = World().sampler.policy
    (end,), word, beyond = policy.eos_ids, 5, policy.vocabulary
    good = [(end,), (word, end), (word,) * 4, (word,) * 3 + (end,)]
    bad = [(), (word,), (word,) * 5, (end, word, word, word), (beyond, end), (word, end, end)]
    assert [is_answer(ids, policy, 4) for ids in good] == [True] * len(good)
    assert [is_answer(ids, policy, 4) for ids in bad] == [False] * len(bad)


def test_offers_are_weighed_by_the_receivers_policy_alone():
    world = World()
    policy, sampler, spec = world.sampler.policy, world.sampler, PublicFleet().world.federation.public
    groups = sampler.sample(PUBLIC[:2], 4, [0, 1])
    (end,) = policy.eos_ids
    rows = {0: [(5, 6, end)], 1: [(7, end), (5, 5, 5, 5)]}
    offers = {p: [Offer(3, ids, True, 1.0, torch.zeros(len(ids))) for ids in own] for p, own in rows.items()}
    sharp = spec.model_copy(update={"typical_z": 0.0})
    got = weighed(offers, groups, sharp, sampler)
    for p, own in rows.items():
        for offer, ids in zip(got[p], own, strict=True):
            tokens = torch.tensor(ids).view(1, 1, -1)
            logp = completion_logprobs(policy, [groups[p].prompt_ids], tokens, 1.0).detach()
            assert offer.logp_T == pytest.approx(logp.flatten(), abs=1e-5)
            slots = torch.zeros(1, 1, dtype=torch.int64)
            prompts = [groups[p].prompt_ids]
            readings = read_completions(policy, prompts, tokens, [0], slots, sampler.sampling)
            expected = float(typical_weight(readings, torch.ones(1, len(ids), dtype=torch.bool), 0.0))
            assert offer.weight == pytest.approx(expected, rel=1e-4)
            assert 0 < offer.weight <= 1


def test_only_groups_with_room_are_scored_and_no_more_is_taken_than_fits():
    world = World()
    groups = world.sampler.sample(PUBLIC[:2], 4, [0, 1])
    groups[0].rewards_G = torch.tensor([1.0, 0.0, 0.0, 0.0])
    groups[1].rewards_G = torch.ones(4)
    one, (end,) = world.sampler.policy.encode("1")[0], world.sampler.policy.eos_ids
    pool = Pool(1, 0, (((one, end),) * 3, ((one, end),)), (1, 2, 1, 2))
    spec = PublicFleet().world.federation.public
    believed = believe(pool, groups, spec, world.sampler, Ones())
    assert {p: [offer.peer for offer in own] for p, own in believed.offers.items()} == {0: [1, 2]}
    assert (believed.scored, dict(believed.left_out)) == (3, {})
