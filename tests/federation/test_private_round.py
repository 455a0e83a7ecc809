"""A private client's promises: nothing unpaid leaves, what is repeated is the same, rewards do not show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hanse.errors import RunError
from hanse.federation.client import Client
from hanse.federation.local import LOCAL_METHODS
from hanse.federation.messages import Broadcast, Upload
from hanse.federation.payload import pack_vector, unpack
from hanse.federation.private_round import Private
from hanse.federation.server import Server
from hanse.privacy.account import Account, Terms
from hanse.privacy.learner import PrivateLearner
from hanse.privacy.step import Asked, drawn
from hanse.recipe.privacy import PrivacySpec
from hanse.tasks.scoring.scores import Scores
from tests.federation.test_client import PROBLEMS, SPEC, Ones, World

LIMIT = 1 << 24
SEEDED = PrivacySpec(enabled=True, noise=1.0, clip=0.5, key="seed")
pytest.importorskip("dp_accounting")


class Same:
    """Every completion gets the same reward."""

    def __init__(self, value: float) -> None:
        self.value = value

    def score(self, problems_N, completions_N, completion_ids_N=None, *, group_size=None):
        values = np.full(len(completions_N), self.value)
        return Scores(("same",), values, values[None])


class Crash:
    def score(self, *_, **__):
        raise KeyboardInterrupt


class PrivateWorld(World):
    def __init__(self, spec: PrivacySpec = SEEDED, steps: int = 20, rate: float | None = None, **federation):
        super().__init__(**federation)
        self.learner = PrivateLearner(self.learner.policy, SPEC, 20)
        terms = Terms.of(spec, len(PROBLEMS), SPEC.prompts_per_step, steps, "a client")
        self.spec, self.terms = spec, terms if rate is None else replace(terms, rate=rate)
        self.scoring: object = Ones()

    def private(self, folder: Path | None = None, index: int = 0, setting: str = "") -> Client:
        account = (
            Account.in_memory(self.terms, 0, index)
            if folder is None
            else Account.open(folder, self.terms, 0, index)
        )
        asked = Asked(self.spec, account.terms, SPEC.prompts_per_step, SPEC.group_size)
        plain = self.client(index)
        kept = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
        return Client(**(kept | {"private": Private(account, asked, setting)}))

    def train(self, client: Client, data: bytes):
        return client.answer(data, self.sampler, self.scoring, self.learner)

    def upload(self, reply: bytes) -> tuple[Upload, torch.Tensor]:
        upload = Upload.from_bytes(reply, max_bytes=LIMIT)
        return upload, unpack(upload.payload, None, self.layout(), None)


def account_of(client: Client) -> Account:
    assert client.private is not None
    return client.private.account


def test_a_round_is_charged_for_its_steps_and_tells_its_account():
    world = PrivateWorld()
    client = world.private()
    reply, rows = world.train(client, world.server().open_round()[0])
    assert account_of(client).steps == 2 == rows[-1]["privacy/steps"]
    assert rows[-1]["privacy/epsilon"] == account_of(client).epsilon > 0
    assert rows[-1]["privacy/seeded"] == 1
    assert not torch.equal(world.upload(reply)[1], world.master)


def test_rows_say_nothing_of_training_problems_unless_marked():
    told = {"learning_rate", "grad_norm", "rollouts", "comm/density"}
    for metrics in ("withheld", "uncovered"):
        world = PrivateWorld(PrivacySpec(enabled=True, noise=1.0, key="seed", metrics=metrics))
        rows = world.train(world.private(), world.server().open_round()[0])[1]
        names = {name for row in rows for name in row if not name.startswith("privacy/")}
        own = {name for name in names if name.startswith("uncovered/")}
        assert names - own == told
        assert bool(own) == (metrics == "uncovered")
        assert ("uncovered/reward" in own) == ("uncovered/step_time" in own) == bool(own)


def test_after_a_crash_the_same_round_is_the_same_bytes_and_is_not_charged_again(tmp_path):
    spec = PrivacySpec(enabled=True, noise=1.0, clip=0.5)
    world = PrivateWorld(spec)
    broadcast = world.server().open_round()[0]
    crashed = world.private(tmp_path)
    world.scoring = Crash()
    with pytest.raises(KeyboardInterrupt):
        world.train(crashed, broadcast)
    assert Account.open(tmp_path, world.terms, 0, 0).steps == 2  # paid before anything was done
    world.scoring = Ones()
    first = world.private(tmp_path)
    reply, _ = world.train(first, broadcast)
    again, _ = world.train(world.private(tmp_path), broadcast)
    assert again == reply
    assert account_of(first).steps == 2
    elsewhere, _ = world.train(world.private(), broadcast)
    assert elsewhere != reply  # another key


def test_another_start_of_the_same_round_gets_fresh_noise_and_is_charged():
    """Else the difference of two uploads would be free of noise."""
    world = PrivateWorld()
    world.scoring = Same(1.0)  # no gradient: uploads are noise alone
    moved = World()
    moved.master += 1e-3
    client, other = world.private(), world.private()
    one = world.upload(world.train(client, world.server().open_round()[0])[0])[1] - world.master
    two = world.upload(world.train(other, moved.server().open_round()[0])[0])[1] - moved.master
    assert abs(float(torch.corrcoef(torch.stack([one, two]))[0, 1])) < 0.1
    same = world.upload(world.train(world.private(), world.server().open_round()[0])[0])[1] - world.master
    assert torch.equal(same, one)
    back = replace(other.state, round=0, replies=(), base_digest="")
    other.state = back
    world.train(other, world.server().open_round()[0])
    assert account_of(other).steps == 4


def test_what_moves_a_round_s_later_steps_is_paid_for_too():
    """A server that sends other control variates with the same values learns of other parameters."""
    charged = []
    for variate in (0.0, 1e-3):
        world = PrivateWorld(local="scaffold")
        client, server = world.private(), world.server()
        broadcast = Broadcast.from_bytes(server.open_round()[0], max_bytes=LIMIT)
        received = LOCAL_METHODS["scaffold"].receives(world.layout().sizes())
        extras = {name: pack_vector(torch.full((size,), variate)) for name, size in received.items()}
        assert extras
        world.train(client, replace(broadcast, extras=extras).to_bytes())
        charged.append(list(account_of(client).charges))
    assert charged[0] != charged[1]


@pytest.mark.parametrize("moment", ["first", "second"])
def test_other_moments_are_another_question(moment):
    charged = []
    for value in (0.0, 1e-3):
        world = PrivateWorld()
        client = world.private()
        setattr(client.state.learner.moments, moment, torch.full_like(world.master, value))
        world.train(client, world.server().open_round()[0])
        charged.append(list(account_of(client).charges))
    assert charged[0] != charged[1]


def test_a_run_of_another_length_or_recipe_gets_fresh_noise_and_is_charged(tmp_path):
    """Shaping and learning rates go by the share of the run that is done; rewards are files that change."""
    uploads = []
    for total, setting in ((20, "x"), (40, "x"), (20, "y"), (20, "x")):
        world = PrivateWorld(PrivacySpec(enabled=True, noise=1.0, clip=0.5))
        world.scoring, world.learner.total_steps = Same(1.0), total  # no gradient: uploads are noise alone
        client = world.private(tmp_path, setting=setting)
        uploads.append(world.upload(world.train(client, world.server().open_round()[0])[0])[1] - world.master)
    assert account_of(client).steps == 6
    assert torch.equal(uploads[0], uploads[3])
    for other in uploads[1:3]:
        assert abs(float(torch.corrcoef(torch.stack([uploads[0], other]))[0, 1])) < 0.1


def test_who_asks_for_two_starts_in_turn_pays_each_time_and_never_sees_noise_twice():
    """Rewards of a chat model are not the same twice: their difference under one noise would tell all."""
    world, moved = PrivateWorld(), World()
    moved.master += 1e-3
    world.scoring = Same(1.0)
    client = world.private()
    one, two = world.server().open_round()[0], moved.server().open_round()[0]
    first, _, again = (
        world.upload(world.train(client, data)[0])[1] - world.master for data in (one, two, one)
    )
    assert account_of(client).steps == 6
    assert abs(float(torch.corrcoef(torch.stack([first, again]))[0, 1])) < 0.1


def test_a_client_whose_account_was_lost_may_not_go_on(tmp_path):
    world = PrivateWorld(PrivacySpec(enabled=True, noise=1.0))
    client, server = world.private(tmp_path), world.server()
    server.close_round({0: world.train(client, server.open_round()[0])[0]})
    (tmp_path / "client-0000.jsonl").unlink()
    late = world.private(tmp_path)
    late.state = client.state
    with pytest.raises(RunError, match=r"did 2 private steps.*knows of 0.*restore the account"):
        world.train(late, server.open_round()[0])
    assert account_of(late).steps == 0


def test_who_has_spent_its_budget_sends_back_what_it_got_and_goes_on_answering():
    world = PrivateWorld(PrivacySpec(enabled=True, epsilon=2.0, key="seed"), steps=4)
    client, server = world.private(), world.server()
    for number in range(4):
        reply, rows = world.train(client, server.open_round()[0])
        _, values = world.upload(reply)
        moved = not torch.equal(values, server.state.master)
        assert moved == (number < 2)
        assert rows[-1].get("privacy/abstained", 0) == (number >= 2)
        assert rows[-1]["privacy/exhausted"] == (number >= 1)
        server.close_round({0: reply})
    assert account_of(client).steps == 4 and account_of(client).epsilon <= 2.0


def test_signals_are_constants_whatever_the_rewards_are():
    signals = []
    for reward in (0.0, 1.0):
        world = PrivateWorld()
        world.scoring = Same(reward)
        signals.append(
            world.upload(world.train(world.private(), world.server().open_round()[0])[0])[0].signal
        )
    assert signals[0] == signals[1]
    assert (signals[0].reward_mean, signals[0].reward_std, signals[0].groups) == (0.0, 0.0, 6)
    assert signals[0].informative == 6 and signals[0].samples == len(PROBLEMS) and signals[0].updates == 2


def test_noised_signals_are_near_the_truth_where_noise_is_small_and_possible_where_it_is_not():
    for noise in (1e-6, 50.0):
        spec = PrivacySpec(enabled=True, noise=noise, key="seed", signals="noised", signal_scale=1.0)
        world = PrivateWorld(spec, rate=1.0)  # all seven problems, and three expected
        world.scoring = Same(0.3)
        signal = world.upload(world.train(world.private(), world.server().open_round()[0])[0])[0].signal
        if noise < 1:
            assert signal.reward_mean == pytest.approx(0.7, abs=1e-4)
            assert signal.reward_std == pytest.approx(0, abs=1e-4)
        assert 0 <= signal.reward_mean <= 1
        assert signal.reward_std**2 <= signal.reward_mean * (1 - signal.reward_mean) + 1e-9
        bound = Server(
            world.federation.model_copy(
                update={"screening": world.federation.screening.model_copy(update={"reward_range": (0, 1)})}
            ),
            world.layout(),
            [0],
            world.server().state,
            group_size=SPEC.group_size,
        )
        bound.open_round()
        record = bound.close_round({0: world.train(world.private(), bound.open_round()[0])[0]})
        assert record.screened[0].reason is None


def test_a_round_without_any_problem_is_noise_and_a_step():
    world = PrivateWorld(rate=1e-12)
    client = world.private()
    reply, rows = world.train(client, world.server().open_round()[0])
    assert client.state.learner.step == 2 and len(rows) == 2
    assert not torch.equal(world.upload(reply)[1], world.master)


def test_a_problem_s_rollouts_do_not_depend_on_the_other_problems():
    stream = account_of(PrivateWorld().private()).stream
    problems, seeds = drawn(PROBLEMS, 1.0, stream)
    fewer, same = drawn(PROBLEMS[3:], 1.0, stream)
    assert problems[3:] == fewer and seeds[3:] == same
    assert len(set(seeds)) == len(PROBLEMS)
