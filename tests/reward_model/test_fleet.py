"""Federated rounds: what equals what, who trains whose model, and what the server learns of groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hanse.reward_model.groups import Groups
from hanse.reward_model.server import drawn_weights
from tests.reward_model.made import make_training


def after(training, rounds=2):
    for number in range(1, rounds + 1):
        training.round(number)
    return training._values()


def test_drawn_weights_by_hand():
    assert drawn_weights({0: 1, 2: 3}, [10, 20, 30], "uniform") == {0: 1.0, 2: 3.0}
    assert drawn_weights({0: 1, 2: 3}, [10, 20, 30], "samples") == {0: 10.0, 2: 90.0}


def test_one_group_is_fedavg_bit_for_bit():
    fedavg = after(make_training([3, 3], "federation.participation=0.5", method="fedavg"))
    debiased = after(make_training([3, 3], "federation.participation=0.5", method="debiased", groups=1))
    assert torch.equal(fedavg[0], debiased[0])


def test_known_groups_of_equal_size_are_fedavg_where_all_take_part():
    """Then everybody has one slot, whoever belongs to whom."""
    fedavg = after(make_training([2, 2], method="fedavg"))
    known = after(make_training([2, 2], method="debiased", known_groups=True))
    assert torch.equal(fedavg[0], known[0])


def test_debiasing_changes_a_round_of_unequal_groups():
    fedavg = after(make_training([3, 1], method="fedavg"))
    known = after(make_training([3, 1], method="debiased", known_groups=True))
    assert not torch.equal(fedavg[0], known[0])


def test_oracle_is_training_in_each_group_alone():
    """Clients' streams depend on their ids, so the second group is compared where it has those ids too."""
    both = after(make_training([2, 2], method="oracle"))
    alone = after(make_training([2], method="fedavg"))
    assert torch.equal(both[0], alone[0])
    assert not torch.equal(both[0], both[1])


def test_oracle_of_one_client_is_its_own_training():
    training = make_training([1, 1], method="oracle", adaptation_steps=2)
    start = training._values()[1].clone()
    training.round(1)
    client = training.fleet.clients[1]
    learner = training.learner
    learner.model.parameters.load(start)
    state = learner.fresh_state()
    order = [client.problems[i] for i in order_of(client)]
    learner.step(order[:4], state)
    learner.step(order[4:8], state)
    assert torch.equal(learner.model.parameters.master, training._values()[1])


def order_of(client):
    from hanse.federation.draw import Draw

    return Draw(client.problems, client.seed, client.id, 0).order(0)


def test_the_round_is_the_mean_of_those_drawn_by_their_slots():
    training = make_training([3, 1], method="debiased", known_groups=True)
    base = training._values()[0].clone()
    training.round(1)
    learner = training.learner
    targets = []
    for client in training.fleet.clients:
        learner.model.parameters.load(base)
        state = learner.fresh_state()
        order = order_of(client)
        for i in range(2):
            learner.step([client.problems[k] for k in order[4 * i : 4 * i + 4]], state)
        targets.append(learner.model.parameters.master.double().clone())
    (counted,) = [s._combination.spec.weights.fixed for s in training.fleet.servers]
    assert counted[3] == 2 and sum(counted) == 4
    mean = sum(w * t for w, t in zip(counted, targets, strict=True)) / 4
    assert torch.allclose(training._values()[0].double(), mean, atol=1e-6)


def test_clustered_clients_choose_the_model_that_fits_them():
    training = make_training([2, 2], method="clustered", groups=2)
    own = training.model.head_entries
    first, second = training._values()
    assert not torch.equal(first[own], second[own])
    rest = slice(0, own.start), slice(own.stop, None)
    assert all(torch.equal(first[part], second[part]) for part in rest)
    result = training.round(1)
    chosen = {k: v for k, v in result.row.items() if k.endswith("/model")}
    expected = {
        f"clients/{training.names[k]}/model": training.fleet.lowest_loss(k, [first, second]) for k in range(4)
    }
    assert chosen == expected
    assert result.bytes_down > 1.9 * result.bytes_up  # both models go down, one comes up


def test_a_cluster_that_nobody_chooses_goes_on(monkeypatch):
    training = make_training([1, 1], method="clustered", groups=2)
    monkeypatch.setattr(type(training.fleet), "lowest_loss", lambda *_: 1)
    before = [values.clone() for values in training._values()]
    for number in (1, 2):
        training.round(number)
    now = training._values()
    assert torch.equal(now[0], before[0])
    assert not torch.equal(now[1], before[1])
    assert [server.state.round for server in training.fleet.servers] == [3, 3]


def test_opposed_clients_are_found_from_their_updates():
    training = make_training([5, 5], method="debiased", local_steps=6, pairs_per_step=12)
    training.round(1)
    groups = training.fleet.tracker.groups()
    assert groups.count == 2
    assert training.last.rand_index == 1
    assert training.last.groups_found == 2
    assert 0 <= training.last.distance <= training.last.farthest


def test_uploads_that_cannot_be_used_are_counted_and_left_out_of_signatures(monkeypatch):
    training = make_training([3, 1], method="fedavg")
    liar, reply = training.fleet.clients[1], type(training.fleet.clients[1]).reply

    def garbled(client, data):
        sent, rows = reply(client, data)
        return (b"nonsense" if client is liar else sent), rows

    monkeypatch.setattr(type(liar), "reply", garbled)
    result = training.round(1)
    assert [text.partition(":")[0] for text in result.refused] == ["client-1"]
    assert set(training.fleet.tracker.signatures) == {0, 2, 3}
    assert training.counters()["refused_uploads"] == 1


def test_adaptation_is_the_same_whenever_asked_and_leaves_clients_alone():
    training = make_training([2, 2], method="fedavg")
    training.round(1)
    values, pairs = training._values()[0], training._owned["held_out"][0]
    state = training.fleet.clients[0].state
    first = training.fleet.adapted_margins(0, values, pairs, 3)
    training.fleet.adapted_margins(1, values, pairs, 5)
    assert torch.equal(training.fleet.adapted_margins(0, values, pairs, 3), first)
    assert training.fleet.clients[0].state is state
    assert not torch.equal(training.fleet.adapted_margins(0, values, pairs, 0), first)


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_groups_are_drawn_from_posteriors(weighting, monkeypatch):
    training = make_training([3, 1], f"federation.weighting='{weighting}'", method="debiased")
    monkeypatch.setattr(training.fleet.tracker, "given", Groups.given(np.array([1, 0, 0, 0])))
    training.round(1)
    (fixed,) = [s._combination.spec.weights.fixed for s in training.fleet.servers]
    assert fixed[0] == 2 * (12 if weighting == "samples" else 1)


def test_the_curve_of_adaptation_is_that_of_its_points():
    training = make_training([2, 2], method="fedavg")
    training.round(1)
    values, pairs = training._values()[0], training._owned["held_out"][1]
    curve = training.fleet.adaptation(1, values, pairs, [0, 2, 5])
    for steps, margins in zip((0, 2, 5), curve, strict=True):
        assert torch.equal(training.fleet.adapted_margins(1, values, pairs, steps), margins)
