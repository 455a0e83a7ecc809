"""Local steps on pairs: gradients by hand, what is learnt, and what is never applied."""

import pytest
import torch

from hanse.errors import NonFiniteError
from tests.reward_model.made import make_learner, make_model, make_task


def test_the_first_gradient_of_the_head_is_half_the_mean_difference_of_states():
    """At zero the loss's slope is -1/2 for each pair, whatever is preferred."""
    model = make_model(train_backbone=False)
    learner, problems = make_learner(model, max_grad_norm=1e9), make_task().problems("train")[:4]
    differences = []
    for pair in learner.pairs(problems):
        first, second = (
            model.policy.model.model(input_ids=torch.tensor([ids])).last_hidden_state[0, -1]
            for ids in (pair.preferred, pair.other)
        )
        differences.append(first - second)
    learner.step(problems, learner.fresh_state())
    expected = -torch.stack(differences).mean(0) / 2
    assert torch.allclose(model.parameters.grad, expected, atol=1e-5)


def test_opposed_clients_teach_the_backbone_the_same_and_heads_the_opposite():
    """After one step from zero heads differ in sign; the second step moves the backbone in one direction."""
    pairs = make_task(clients=[1]).problems("train")[:4]
    flipped = [
        type(p)(
            f"not-{p.id}",
            p.prompt,
            None,
            {**p.metadata, "chosen": p.metadata["rejected"], "rejected": p.metadata["chosen"]},
        )
        for p in pairs
    ]
    gradients = []
    for problems in (pairs, flipped):
        learner = make_learner(make_model())
        state = learner.fresh_state()
        learner.step(problems, state)
        learner.step(problems, state)
        head = learner.model.head_entries
        grad = learner.model.parameters.grad.clone()
        gradients.append((grad[head].clone(), torch.cat([grad[: head.start], grad[head.stop :]])))
    assert torch.allclose(gradients[0][0], -gradients[1][0], atol=1e-5)
    assert float(gradients[0][1].abs().max()) > 1e-4
    assert torch.allclose(gradients[0][1], gradients[1][1], atol=1e-5)


def test_a_client_learns_its_pairs():
    learner, problems = make_learner(), make_task(clients=[1]).problems("train")
    state = learner.fresh_state()
    losses = [learner.step(problems, state)["loss"] for _ in range(30)]
    assert losses[0] == pytest.approx(0.6931, abs=1e-4)
    assert losses[-1] < 0.2
    assert float((learner.margins(problems) > 0).float().mean()) == 1
    assert state.step == state.moments.updates == 30


def test_non_finite_gradients_are_never_applied_and_end_the_run_when_they_go_on():
    learner, problems = make_learner(), make_task().problems("train")[:2]
    state, values = learner.fresh_state(), learner.model.parameters.master
    values[learner.model.head_entries] = float("inf")
    before = values.clone()
    for _ in range(4):
        learner.step(problems, state)
    assert torch.equal(values, before)
    assert state.counters["non_finite_steps"] == 4
    with pytest.raises(NonFiniteError, match=r"reward_model\.lr"):
        learner.step(problems, state)
