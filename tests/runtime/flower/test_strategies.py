"""Our strategies in a Flower ServerApp's hands: weights by hand, hostile replies, quorums."""

from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from hypothesis import given
from hypothesis import strategies as st

from hanse.errors import QuorumError
from hanse.runtime.flower.local_grid import LocalGrid
from hanse.runtime.flower.strategies import HanseRewardWeighted, HanseRobust

START = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
STEPS = np.array([7], dtype=np.int64)


def arrays_of(values, steps=STEPS) -> ArrayRecord:
    return ArrayRecord({"w": Array(np.asarray(values)), "steps": Array(steps)})


def client(move, **metrics) -> ClientApp:
    """Adds `move` to what it is sent; or answers with what `move(content)` makes."""
    app = ClientApp()

    @app.train()
    def _train(message, context):
        if callable(move):
            return Message(move(message.content), reply_to=message)
        values = message.content["arrays"]["w"].numpy() + np.float32(move)
        told = MetricRecord({name.replace("_", "-"): value for name, value in metrics.items()})
        return Message(RecordDict({"arrays": arrays_of(values), "metrics": told}), reply_to=message)

    return app


def run(strategy, *apps, rounds=1):
    """The values after some rounds of the strategy's own `start`."""
    result = strategy.start(LocalGrid(apps), arrays_of(START), num_rounds=rounds, timeout=1.0)
    return result.arrays["w"].numpy(), result


def test_weights_follow_reward_deviations():
    strategy = HanseRewardWeighted(cap=None)
    values, result = run(
        strategy,
        client(1.0, num_examples=100, reward_mean=0.5, reward_std=0.3),
        client(3.0, num_examples=1, reward_mean=0.1, reward_std=0.1),
    )
    assert list(strategy.weights.values()) == pytest.approx([0.75, 0.25])
    np.testing.assert_allclose(values, START + 1.5, rtol=0, atol=1e-6)
    assert result.train_metrics_clientapp[1]["reward-mean"] == pytest.approx(0.75 * 0.5 + 0.25 * 0.1)
    assert result.arrays["steps"].numpy().tolist() == [7]
    assert values.dtype == np.float32


def test_f12_a_claim_gains_no_more_than_the_cap():
    strategy = HanseRewardWeighted(cap=1.5)
    honest = [client(0.0, num_examples=10, reward_std=0.2) for _ in range(2)]
    run(strategy, *honest, client(1.0, num_examples=10**9, reward_std=1e11))
    assert list(strategy.weights.values()) == pytest.approx([0.25, 0.25, 0.5])


def test_f10_no_signal_counts_all_equally():
    strategy = HanseRewardWeighted()
    values, _ = run(strategy, client(1.0, reward_std=0.0), client(2.0, reward_std=0.0))
    np.testing.assert_allclose(values, START + 1.5)


def test_identical_clients_make_every_weighting_the_mean():
    for strategy in (HanseRewardWeighted(), HanseRewardWeighted(weighting="samples"), HanseRobust("median")):
        apps = [client(0.5, num_examples=n, reward_std=s) for n, s in ((1, 0.1), (5, 0.4), (9, 0.2))]
        np.testing.assert_allclose(run(strategy, *apps)[0], START + 0.5, rtol=0, atol=1e-6)


def _changed(**parts):
    def answer(content):
        whole = {"arrays": arrays_of(START), "metrics": MetricRecord({"reward-std": 0.1})} | parts
        return RecordDict({name: record for name, record in whole.items() if record is not None})

    return answer


def _forged(shape):
    """An array whose header promises what its data do not hold."""
    genuine = Array(START)
    data = genuine.data.replace(b"(2, 2)", shape.encode(), 1)
    return ArrayRecord({"w": Array("float32", (2, 2), genuine.stype, data), "steps": Array(STEPS)})


HOSTILE = {
    "not finite": _changed(arrays=arrays_of(START * np.float32("nan"))),
    "not those": _changed(arrays=ArrayRecord({"v": Array(START)})),
    "not those ": _changed(arrays=None),
    "another shape": _changed(arrays=arrays_of(np.zeros((3, 2), dtype=np.float32))),
    "another shape or kind": _changed(arrays=arrays_of(START.astype(np.float64))),
    "damaged": _changed(arrays=_forged("(9, 9)")),
    "damaged ": _changed(arrays=ArrayRecord({"w": Array("float32", (2,), "x", b"y"), "steps": Array(STEPS)})),
    "no metrics": _changed(metrics=None),
    "metrics are not finite": _changed(metrics=MetricRecord({"reward-std": float("inf")})),
    "impossible": _changed(metrics=MetricRecord({"reward-std": -1.0})),
    "over 10 times": _changed(arrays=arrays_of(START + np.float32(1e6))),
    "Flower error 2": lambda content: 1 / 0,
}


@pytest.mark.parametrize("why", HOSTILE)
@pytest.mark.parametrize("strategy", [HanseRewardWeighted, lambda: HanseRobust("median", byzantine=1)])
def test_f9_f11_a_hostile_reply_is_left_out_and_counted(strategy, why):
    honest = [client(1.0, reward_std=0.2) for _ in range(3)]
    chosen = strategy()
    values, _ = run(chosen, *honest, client(HOSTILE[why]), rounds=2)
    np.testing.assert_allclose(values, START + 2.0)
    ((told, count),) = chosen.ledger.items()
    assert told.startswith("node 1004: ") and why.strip() in told
    assert count == 2


def test_a_robust_rule_withstands_a_liar_that_passes_the_gate():
    honest = [client(m, reward_std=0.2) for m in (0.9, 1.0, 1.1)]
    values, _ = run(HanseRobust("median"), *honest, client(-5.0, reward_std=0.2))
    assert (np.abs(values - START - 1.0) < 0.2).all()
    plain, _ = run(HanseRewardWeighted(), *honest, client(-5.0, reward_std=0.2))
    assert (plain < START).all()


def test_too_few_usable_replies_keep_the_model():
    strategy = HanseRobust("krum", byzantine=1)  # needs 2 f + 3 = 5
    grid = LocalGrid([client(1.0, reward_std=0.1)] * 4)
    result = strategy.start(grid, arrays_of(START), num_rounds=2, timeout=1.0)
    assert not result.arrays  # Flower goes on with those that it had
    assert [list(m.content["arrays"]["w"].numpy().flat) for m, _ in grid.log] == [[1, 2, 3, 4]] * 8
    assert strategy.ledger["rounds without a quorum"] == 2


def test_f6_missing_nodes_are_not_waited_for_without_end():
    naps: list[float] = []
    strategy = HanseRewardWeighted(min_available_nodes=3, wait_s=5.0, sleep=naps.append)
    with pytest.raises(QuorumError, match="2 nodes came within 5 s, and 3 are needed"):
        run(strategy, client(1.0), client(1.0))
    assert naps == [1.0] * 5


def test_a_part_of_the_nodes_is_drawn_by_the_seed():
    def drawn(seed):
        strategy = HanseRewardWeighted(seed=seed, fraction_train=0.5)
        grid = LocalGrid([client(0.0)] * 4)
        config = ConfigRecord()
        return [
            [m.metadata.dst_node_id for m in strategy.configure_train(r, arrays_of(START), config, grid)]
            for r in range(1, 9)
        ]

    assert drawn(1) == drawn(1) != drawn(2)
    assert {len(nodes) for nodes in drawn(1)} == {2}
    assert {node for nodes in drawn(1) for node in nodes} == {1001, 1002, 1003, 1004}


def test_rules_that_need_a_servers_problems_are_refused():
    with pytest.raises(ValueError, match="fltrust"):
        HanseRobust("fltrust")


@given(st.permutations(range(4)))
def test_the_order_of_replies_does_not_matter(order):
    assert np.array_equal(combined(order), combined(range(4)))


def combined(order):
    LocalGrid([])  # says who builds the messages
    strategy, replies = HanseRewardWeighted(), []
    strategy._sent = arrays_of(START)
    for i in order:
        asked = Message(RecordDict(), dst_node_id=1001 + i, message_type="train")
        values = arrays_of(START + np.float32((0.1, 0.7, -0.3, 0.2)[i]))
        told = MetricRecord({"reward-std": 0.1 + i, "num-examples": i + 1})
        replies.append(Message(RecordDict({"arrays": values, "metrics": told}), reply_to=asked))
    arrays, _ = strategy.aggregate_train(1, replies)
    return arrays["w"].numpy()
