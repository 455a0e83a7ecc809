"""A client's promises: answers repeat, states are never changed in place, streams go on where they were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from hanse.federation.client import Client, ClientState
from hanse.federation.draw import Draw
from hanse.federation.messages import Upload
from hanse.federation.payload import unpack
from hanse.federation.server import Server, ServerState
from hanse.federation.wire.frame import WireError
from hanse.federation.wire.layout import Layout
from hanse.federation.wire.patch import digest_of_values
from hanse.grpo.learner import Learner, LearnerState
from hanse.grpo.optimiser import Moments
from hanse.policy.sampler import Sampler, Sampling
from hanse.policy.tiny import tiny_policy
from hanse.recipe.model import FederationSpec, GrpoSpec, TinyPolicy
from hanse.tasks.arithmetic import VOCABULARY
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scores import Scores

SPEC = GrpoSpec(group_size=4, prompts_per_step=3, local_steps=2, max_new_tokens=4, lr=1e-2)
PROBLEMS = [Problem(f"p{i}", f"{i:03d}+001=", "1") for i in range(7)]


class Ones:
    """Rewards the share of ones in a completion: variance from the first step on."""

    def score(self, problems_N, completions_N, completion_ids_N=None, *, group_size=None):
        values = np.array([text.count("1") / max(1, len(text)) for text in completions_N])
        return Scores(("ones",), values, values[None])


class World:
    def __init__(self, **federation):
        policy = tiny_policy(TinyPolicy(hidden=16, layers=1, heads=2, intermediate=16), VOCABULARY, 0)
        self.learner = Learner(policy, SPEC, 20)
        self.sampler = Sampler(policy, Sampling(SPEC.max_new_tokens))
        self.federation = FederationSpec(**federation)
        self.parameters = policy.parameters
        self.master = policy.parameters.master.clone()

    def layout(self, dtype: str = "float32") -> Layout:
        return Layout(self.parameters.names, self.parameters.shapes, dtype)

    def client(self, index: int = 0, dtype: str = "float32") -> Client:
        state = ClientState(LearnerState(Moments.zeros(self.master)))
        return Client(
            index, f"c{index}", PROBLEMS, 0, self.federation, SPEC.local_steps, self.layout(dtype), state
        )

    def server(self, dtype: str = "float32") -> Server:
        return Server(self.federation, self.layout(dtype), [0], ServerState(self.master.clone()))

    def train(self, client: Client, data: bytes):
        return client.answer(data, self.sampler, Ones(), self.learner)


def test_a_repeated_broadcast_gets_the_same_bytes_without_training():
    world = World()
    client, broadcast = world.client(), world.server().open_round()[0]
    first, rows = world.train(client, broadcast)
    state = client.state
    again, none = world.train(client, broadcast)
    assert again == first
    assert len(rows) == 2
    assert none == []
    assert client.state is state


def test_a_client_ahead_of_a_restored_server_rolls_back_and_repeats_itself():
    world = World()
    client, server = world.client(), world.server()
    server.close_round({0: world.train(client, server.open_round()[0])[0]})
    second = server.open_round()[0]
    reply, _ = world.train(client, second)
    client.state = replace(client.state, replies=())
    repeated, rows = world.train(client, second)
    assert len(rows) == 2
    assert repeated == reply


def test_a_round_long_past_is_refused():
    world = World()
    client, server = world.client(), world.server()
    opened = server.open_round()[0]
    for _ in range(3):
        server.close_round({0: world.train(client, server.open_round()[0])[0]})
    with pytest.raises(WireError, match="round 1"):
        world.train(client, opened)


def test_moments_of_the_kept_state_are_not_touched():
    world = World()
    client = world.client()
    before = client.state
    world.train(client, world.server().open_round()[0])
    assert before.learner.moments.first.abs().max() == 0
    assert client.state.learner.moments.first.abs().max() > 0
    assert before.learner.step == 0
    assert client.state.learner.step == 2


def test_reset_moments_start_each_round_anew():
    def second_round(moments: str) -> bytes:
        world = World(moments=moments)
        client, server = world.client(), world.server()
        server.close_round({0: world.train(client, server.open_round()[0])[0]})
        return world.train(client, server.open_round()[0])[0]

    assert second_round("keep") != second_round("reset")
    assert second_round("reset") == second_round("reset")


def test_every_epoch_visits_each_problem_once_and_streams_do_not_repeat_case_r1():
    client = World().client()
    whole = Draw(client.problems, client.seed, client.id, 0)
    problems, seeds = whole(21)
    for epoch in range(3):
        assert sorted(p.id for p in problems[7 * epoch : 7 * epoch + 7]) == sorted(p.id for p in PROBLEMS)
    assert len(set(seeds)) == 21
    assert [p.id for p in problems[:7]] != [p.id for p in problems[7:14]]
    resumed = Draw(client.problems, client.seed, client.id, 10)
    assert resumed(11) == (problems[10:], seeds[10:])


def test_clients_draw_in_different_orders():
    assert Draw(PROBLEMS, 0, 0, 0).order(0) != Draw(PROBLEMS, 0, 1, 0).order(0)


def test_the_residual_is_what_the_cast_dropped():
    world = World()
    client, server = world.client(dtype="bfloat16"), world.server("bfloat16")
    reply, _ = world.train(client, server.open_round()[0])
    sent = Upload.from_bytes(reply, max_bytes=1 << 20)
    base = world.master.to(torch.bfloat16)
    layout = world.layout("bfloat16")
    values = unpack(sent.payload, base, layout, digest_of_values(base, layout)).float()
    assert client.state.residual is not None
    assert torch.equal(values + client.state.residual, world.learner.policy.parameters.master)


def test_garbage_is_refused_and_changes_nothing():
    world = World()
    client = world.client()
    state = client.state
    for data in (b"", b"x" * 100, world.server().open_round()[0][:-1]):
        with pytest.raises(WireError):
            world.train(client, data)
    assert client.state is state
