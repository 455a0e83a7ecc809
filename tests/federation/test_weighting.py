"""Weights by hand, and what holds for every weighting."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.signal import Signal
from hanse.federation.weighting import UNCAPPED, WEIGHTINGS, Standing, capped, normalised, weigh
from hanse.federation.weighting.coherence import signal_share
from hanse.recipe.federation import FederationSpec

CAPPED = sorted(set(WEIGHTINGS) - set(UNCAPPED))


def standing(client: int, norm: float = 1.0, **fields) -> Standing:
    values = {"reward_mean": 0.5, "reward_std": 0.25, "groups": 4, "informative": 3, "samples": 10} | fields
    return Standing(client, Signal(**values), norm)


def spec(weighting: str, **options) -> FederationSpec:
    return FederationSpec(weighting=weighting, weights={"cap": None} | options)


def weights_of(weighting: str, standings: list[Standing], state=None, **options) -> list[float]:
    return weigh(spec(weighting, **options), state or {}, standings)[0]


raw_weights = st.lists(st.floats(0, 1e12), min_size=1, max_size=12)


@given(raw_weights, st.floats(1, 20))
def test_capped_weights_sum_to_one_and_respect_the_cap(raw, cap):
    weights = capped(normalised(raw), cap)
    assert math.fsum(weights) == pytest.approx(1, abs=1e-9)
    assert max(weights) <= min(1.0, cap / len(raw)) + 1e-9
    assert min(weights) >= 0


@given(raw_weights, st.floats(1, 20))
def test_a_cap_keeps_the_order_and_the_proportions_below_it(raw, cap):
    plain = normalised(raw)
    weights = capped(plain, cap)
    limit = cap / len(raw)
    below = [k for k, w in enumerate(weights) if w < limit * (1 - 1e-6) and plain[k] > 1e-200]
    ratios = [weights[k] / plain[k] for k in below]
    assert all(ratio == pytest.approx(ratios[0], rel=1e-6) for ratio in ratios)
    assert all(ratio >= 1 - 1e-9 for ratio in ratios)


@pytest.mark.parametrize(
    ("raw", "cap", "expected"),
    [
        ([7.0], 1.0, [1.0]),
        ([7.0], None, [1.0]),
        ([0.0, 0.0, 0.0, 0.0], 2.0, [0.25] * 4),
        ([5.0, 0.0, 1.0, 2.0], 1.0, [0.25] * 4),
        ([1e12, 1.0, 1.0, 2.0], 2.0, [0.5, 0.125, 0.125, 0.25]),
        ([1e12, 0.0, 0.0, 0.0], 2.0, [0.5, 1 / 6, 1 / 6, 1 / 6]),
        ([6.0, 3.0, 1.0, 0.0], 1.6, [0.4, 0.4, 0.2, 0.0]),
        ([6.0, 3.0, 1.0], 30.0, [0.6, 0.3, 0.1]),
    ],
)
def test_caps_by_hand(raw, cap, expected):
    assert capped(normalised(raw), cap) == pytest.approx(expected)


def test_reward_std_by_hand():
    clients = [
        standing(0, reward_std=0.1, reward_std_pooled=0.4, samples=30),
        standing(1, reward_std=0.3, reward_std_pooled=0.4, samples=10),
    ]
    assert weights_of("reward-std", clients) == pytest.approx([0.25, 0.75])
    assert weights_of("reward-std", clients, gamma=2.0) == pytest.approx([0.1, 0.9], rel=1e-5)
    assert weights_of("reward-std", clients, gamma=0.0) == pytest.approx([0.5, 0.5])
    assert weights_of("reward-std", clients, std="pooled") == pytest.approx([0.5, 0.5])
    assert weights_of("reward-std", clients, times_samples=True) == pytest.approx([0.5, 0.5])


def test_reward_std_ignores_differences_between_prompts():
    """Half trivial and half impossible prompts: pooled deviation 0.5, and no gradient at all."""
    clients = [
        standing(0, reward_std=0.0, reward_std_pooled=0.5),
        standing(1, reward_std=0.2, reward_std_pooled=0.2),
    ]
    assert weights_of("reward-std", clients)[0] < 1e-6
    assert weights_of("reward-std", clients, std="pooled") == pytest.approx([5 / 7, 2 / 7])


def test_relative_gain_by_hand():
    first = [standing(0, reward_mean=0.2), standing(1, reward_mean=0.45)]
    weights, state = weigh(spec("relative-gain"), {}, first)
    assert weights == [0.5, 0.5]
    second = [standing(0, reward_mean=0.25), standing(1, reward_mean=0.35)]
    weights, state = weigh(spec("relative-gain"), state, second)
    a, b = math.exp(0.05 / 0.25), math.exp(-0.1 / 0.5)
    assert weights == pytest.approx([a / (a + b), b / (a + b)])
    assert state["mean"] == pytest.approx({"0": 0.9 * 0.2 + 0.1 * 0.25, "1": 0.9 * 0.45 + 0.1 * 0.35})


def test_relative_gain_of_the_local_steps_is_clipped_and_sharpened():
    clients = [
        standing(0, reward_first=0.0, reward_last=0.9, samples=1),
        standing(1, reward_first=0.15, reward_last=0.15, samples=3),
    ]
    e = math.exp(1)
    assert weights_of("relative-gain", clients, gain="own") == pytest.approx([e / (e + 1), 1 / (e + 1)])
    sharp = math.exp(1 / 0.2)
    weights = weights_of("relative-gain", clients, gain="own", temperature=0.2, times_samples=True)
    assert weights == pytest.approx([sharp / (sharp + 3), 3 / (sharp + 3)])


def test_tasks_share_equally_and_compare_within_themselves():
    """Clients 0 and 2 learn one task, client 1 another: half for each task, whatever their rewards are."""
    clients = [standing(0, reward_mean=0.1), standing(1, reward_mean=0.9), standing(2, reward_mean=0.6)]
    tasks, e = ["sums", "code", "sums"], math.e
    got = weights_of("task-accuracy", clients, temperature=0.5, tasks=tasks)
    assert got == pytest.approx([0.5 / (e + 1), 0.5, 0.5 * e / (e + 1)])
    alone = weights_of("task-accuracy", clients[:2], temperature=0.5, tasks=tasks)
    assert alone == pytest.approx([0.5, 0.5])
    sized = [standing(0, samples=10), standing(1, samples=30), standing(2, samples=20)]
    got = weights_of("task-accuracy", sized, tasks=tasks, times_samples=True)
    assert got == pytest.approx([10 / 60, 30 / 60, 20 / 60])


def test_task_accuracy_by_hand():
    clients = [standing(0, reward_mean=0.6, samples=10), standing(1, reward_mean=0.1, samples=20)]
    e = math.exp(1)
    assert weights_of("task-accuracy", clients, temperature=0.5) == pytest.approx([e / (e + 1), 1 / (e + 1)])
    weights = weights_of("task-accuracy", clients, temperature=0.5, times_samples=True)
    assert weights == pytest.approx([e / (e + 2), 2 / (e + 2)])


def test_fairness_by_hand():
    clients = [standing(0, reward_mean=0.6), standing(1, reward_mean=0.1)]
    e = math.exp(1)
    assert weights_of("fairness", clients, temperature=0.5) == pytest.approx([1 / (e + 1), e / (e + 1)])
    assert weights_of("fairness", clients, threshold=0.5) == [0.5, 0.5]


def test_coherence_by_hand():
    clients = [
        standing(0, norm=2.0, coherence=1.0),
        standing(1, norm=1.0, coherence=2.0),
        standing(2, norm=1.0, coherence=1.0),
    ]
    assert weights_of("coherence", clients) == pytest.approx([0.2, 0.4, 0.4])
    assert weights_of("coherence", [standing(0, norm=0.0, coherence=5.0), clients[1]]) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("gradients", "share"),
    [
        ([(3.0, 4.0), (3.0, 4.0)], 1.0),
        ([(1.0, 0.0), (-1.0, 0.0)], 0.0),
        ([(1.0, 1.0), (1.0, -1.0), (1.0, 0.0)], 2 / 3),
        ([(1.0, 0.0)], 0.0),
        ([(0.0, 0.0), (0.0, 0.0)], 0.0),
    ],
)
def test_the_share_of_signal_by_hand(gradients, share):
    """Third: |sum|^2 = 9, sum |g|^2 = 5, S = 4 / 6, N = 5/3 - 2/3 = 1, rho = (2/3) / (2/3 + 1/3)."""
    total = sum(sum(column) ** 2 for column in zip(*gradients, strict=True))
    squares = sum(x * x for g in gradients for x in g)
    assert signal_share(total, squares, len(gradients)) == pytest.approx(share)


def test_fixed_weights_go_by_client_id_also_when_some_are_absent():
    assert weights_of("fixed", [standing(0), standing(2)], fixed=[1.0, 5.0, 3.0]) == [0.25, 0.75]


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_identical_clients_count_the_same_in_every_round(weighting):
    clients = [standing(k, reward_std_pooled=0.3, coherence=0.7) for k in range(5)]
    state = {}
    for _ in range(3):
        weights, state = weigh(spec(weighting, fixed=[1.0] * 5, ema=0.5), state, clients)
        assert weights == pytest.approx([0.2] * 5)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_a_round_without_signal_is_uniform(weighting):
    nothing = {"reward_mean": 0.0, "reward_std": 0.0, "informative": 0, "samples": 0}
    clients = [standing(k, norm=0.0, **nothing) for k in range(4)]
    options = {"fixed": [0.0] * 4, "times_samples": True}
    assert weights_of(weighting, clients, **options) == [0.25] * 4


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@given(data=st.data())
def test_weights_of_any_signals_are_shares_of_one(weighting, data):
    count = data.draw(st.integers(1, 5))
    number, rate = st.floats(-1e12, 1e12), st.floats(0, 1e12)
    clients = [
        standing(
            k,
            norm=data.draw(rate),
            reward_mean=data.draw(number),
            reward_std=data.draw(rate),
            reward_first=data.draw(number),
            reward_last=data.draw(number),
            coherence=data.draw(rate),
            samples=data.draw(st.integers(0, 2**40)),
        )
        for k in range(count)
    ]
    options = {
        "cap": 2.0,
        "gamma": data.draw(st.floats(0, 10)),
        "temperature": data.draw(st.floats(1e-3, 10)),
    }
    options |= {"fixed": [1.0] * count, "times_samples": data.draw(st.booleans()), "ema": 0.5}
    state = {}
    for _ in range(2):
        weights, state = weigh(spec(weighting, **options), state, clients)
        assert math.fsum(weights) == pytest.approx(1, abs=1e-9)
        assert min(weights) >= 0
        if weighting in CAPPED:
            assert max(weights) <= min(1.0, 2 / count) + 1e-9


@pytest.mark.parametrize("weighting", ["reward-std", "relative-gain", "fairness", "coherence"])
def test_smoothed_weights_survive_json_and_absent_clients(weighting):
    rounds = [
        [
            standing(k, reward_mean=0.1 * k + 0.05 * t, reward_std=0.1 + 0.1 * k, coherence=1.0 + k + t)
            for k in at
        ]
        for t, at in enumerate([(0, 1, 2), (0, 2), (0, 1, 2)])
    ]
    options, kept, written = spec(weighting, ema=0.8), {}, {}
    for clients in rounds:
        weights, kept = weigh(options, kept, clients)
        again, written = weigh(options, json.loads(json.dumps(written)), clients)
        assert again == weights
    assert set(kept["mean"]) == {"0", "1", "2"}


def test_an_ema_is_the_past_times_its_share_plus_now():
    options = spec("reward-std", ema=0.75)
    _, state = weigh(options, {}, [standing(0, reward_std=0.4), standing(1, reward_std=0.2)])
    weights, state = weigh(options, state, [standing(0, reward_std=0.0), standing(1, reward_std=0.6)])
    assert state["mean"] == pytest.approx({"0": 0.3, "1": 0.3})
    assert weights == pytest.approx([0.5, 0.5])
