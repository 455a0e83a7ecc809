"""Local methods on small vectors: the client's side, and the server's."""

from __future__ import annotations

import pytest
import torch

from hanse.federation.local import LOCAL_METHODS, Delivered, Plain, Setting
from hanse.grpo.optimiser import Moments
from hanse.recipe.federation import LocalSpec


def setting(start: list[float], extras=None, kept=None, sizes=None, **spec) -> Setting:
    tensors = [{k: torch.tensor(v) for k, v in (d or {}).items()} for d in (extras, kept)]
    return Setting(LocalSpec(**spec), torch.tensor(start), *tensors, sizes or [len(start)], beta=0.9)


def client(name: str, *args, **spec) -> Plain:
    return LOCAL_METHODS[name].client(setting(*args, **spec))


def moments(second: list[float], updates: int = 0) -> Moments:
    return Moments(torch.zeros(len(second)), torch.tensor(second), updates)


def test_fedprox_pulls_back_to_the_values_received():
    method = client("fedprox", [1.0, 2.0], mu=0.5)
    grad = torch.tensor([0.1, 0.1])
    method.gradient(grad, torch.tensor([3.0, 1.0]))
    assert grad.tolist() == pytest.approx([0.1 + 1.0, 0.1 - 0.5])


def test_scaffold_steps_and_controls_by_hand():
    """c = (1, 0) and c_k = (0, 2): after each update theta moves by -lr (1, -2).

    Two updates at 0.1 from (0, 0), the optimiser's own steps -0.1 and -0.3 in each entry, give theta = -0.4 -
    0.2 (1, -2) = (-0.6, 0). Then c_k - c + (0 - theta) / 0.2 = (-1, 2) + (3, 0) = (2, 2), the mean direction.
    """
    method = client("scaffold", [0.0, 0.0], {"control": [1.0, 0.0]}, {"control": [0.0, 2.0]})
    master = torch.zeros(2)
    for own in (0.1, 0.3):
        master.sub_(own)
        method.stepped(master, 0.1)
    assert master.tolist() == pytest.approx([-0.6, 0.0], abs=1e-6)
    sends, kept = method.finish(master, moments([0.0, 0.0]))
    assert kept["control"].tolist() == pytest.approx([2.0, 2.0])
    assert sends["control"].tolist() == pytest.approx([2.0, 0.0])


def test_scaffold_without_an_update_keeps_its_control():
    method = client("scaffold", [0.0, 0.0], {"control": [1.0, 0.0]}, {"control": [0.0, 2.0]})
    sends, kept = method.finish(torch.zeros(2), moments([0.0, 0.0]))
    assert sends["control"].tolist() == [0.0, 0.0]
    assert kept["control"].tolist() == [0.0, 2.0]


def test_scaffolds_first_round_is_plain():
    method, master = client("scaffold", [1.0]), torch.tensor([0.5])
    method.stepped(master, 0.1)
    assert master.tolist() == [0.5]
    assert method.finish(master, moments([0.0]))[0]["control"].tolist() == pytest.approx([5.0])


def test_scaffolds_server_moves_by_the_share_of_all_clients():
    """Two of four clients answered: a common control of 1 becomes 1 + (2 + 4) / 4."""
    absorb = LOCAL_METHODS["scaffold"].absorb
    extras = [{"control": torch.tensor([2.0])}, {"control": torch.tensor([4.0])}]
    delivered = Delivered(extras, [0.5, 0.5], 4, torch.zeros(1, dtype=torch.float64))
    assert absorb({"control": torch.tensor([1.0])}, delivered)["control"].tolist() == [2.5]
    assert absorb({}, delivered)["control"].tolist() == [1.5]


def test_controls_of_all_clients_average_to_the_common_one():
    """What SCAFFOLD rests on: c stays the mean of the c_k, round after round."""
    random = torch.Generator().manual_seed(0)
    common, own = torch.zeros(3), [torch.zeros(3) for _ in range(3)]
    for _ in range(3):
        sent = []
        for k in range(3):
            method = LOCAL_METHODS["scaffold"].client(
                Setting(LocalSpec(), torch.zeros(3), {"control": common}, {"control": own[k]}, [3])
            )
            master = torch.randn(3, generator=random)
            method.stepped(master, 0.5)
            sends, kept = method.finish(master, moments([0.0] * 3))
            own[k] = kept["control"]
            sent.append(sends)
        delivered = Delivered(sent, [1 / 3] * 3, 3, torch.zeros(3, dtype=torch.float64))
        common = LOCAL_METHODS["scaffold"].absorb({"control": common}, delivered)["control"]
        torch.testing.assert_close(common, torch.stack(own).mean(0))


def test_fedadamw_starts_from_the_means_and_leans_towards_the_global_step():
    method = client(
        "fedadamw",
        [0.0] * 3,
        {"second_means": [4.0, 9.0], "global_step": [1.0, 0.0, -1.0]},
        sizes=[2, 1],
        alpha=0.5,
    )
    begun = method.moments(Moments(torch.ones(3), torch.zeros(3), 7))
    assert begun.second.tolist() == [4.0, 4.0, 9.0]
    assert begun.first.tolist() == [1.0] * 3
    assert 0.999**begun.updates < 1e-6
    master = torch.zeros(3)
    method.stepped(master, 0.2)
    assert master.tolist() == pytest.approx([0.1, 0.0, -0.1])


def test_fedadamw_sends_means_of_which_adams_bias_is_gone():
    """After two updates with beta = 0.9 a second moment has 1 - 0.81 = 0.19 of its weight."""
    method = client("fedadamw", [0.0] * 3, sizes=[2, 1])
    first = Moments(torch.ones(3), torch.zeros(3), 0)
    assert method.moments(first) is first
    for lr in (0.1, 0.3):
        method.stepped(torch.zeros(3), lr)
    sends, kept = method.finish(torch.zeros(3), moments([0.19 * 2, 0.19 * 4, 0.19 * 5], updates=2))
    assert sends["second_means"].tolist() == pytest.approx([3.0, 5.0])
    assert sends["rate"].tolist() == pytest.approx([0.4])
    assert kept == {}


def test_fedadamws_server_by_hand():
    extras = [
        {"second_means": torch.tensor([1.0, 2.0]), "rate": torch.tensor([0.1])},
        {"second_means": torch.tensor([3.0, 0.0]), "rate": torch.tensor([0.3])},
    ]
    update = torch.tensor([0.2, -0.4], dtype=torch.float64)
    state = LOCAL_METHODS["fedadamw"].absorb({}, Delivered(extras, [0.5, 0.5], 2, update))
    assert state["second_means"].tolist() == [2.0, 1.0]
    assert state["global_step"].tolist() == pytest.approx([1.0, -2.0])
    backwards = [extras[0], extras[1] | {"rate": torch.tensor([-0.0999])}]
    state = LOCAL_METHODS["fedadamw"].absorb({}, Delivered(backwards, [0.5, 0.5], 2, update))
    assert state["global_step"].tolist() == pytest.approx([4.0, -8.0])
    still = [extra | {"rate": torch.zeros(1)} for extra in extras]
    state = LOCAL_METHODS["fedadamw"].absorb({}, Delivered(still, [0.5, 0.5], 2, update))
    assert state["global_step"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", LOCAL_METHODS)
def test_what_is_sent_has_the_sizes_that_are_promised(name):
    sizes, method = [3, 2], LOCAL_METHODS[name]
    one = method.client(setting([0.0] * 5, sizes=sizes))
    one.stepped(torch.zeros(5), 0.1)
    sends, _ = one.finish(torch.zeros(5), moments([0.0] * 5, 1))
    assert {k: len(v) for k, v in sends.items()} == dict(method.sends(sizes))
    if method.absorb is None:
        assert method.receives(sizes) == {}
        return
    state = method.absorb({}, Delivered([sends], [1.0], 1, torch.zeros(5, dtype=torch.float64)))
    assert {k: len(v) for k, v in state.items()} == dict(method.receives(sizes))


def test_a_shared_second_moment_replaces_the_clients_own_entry_by_entry():
    method = client("shared-moment", [0.0, 0.0], {"second": [4.0, 9.0]})
    begun = method.moments(Moments(torch.tensor([1.0, 2.0]), torch.tensor([7.0, 7.0]), 5))
    assert begun.second.tolist() == [4.0, 9.0]
    assert begun.first.tolist() == [1.0, 2.0]
    assert 0.9**begun.updates < 1e-30  # so Adam corrects no bias that is not there
    begun.second.zero_()
    assert method.setting.extras["second"].tolist() == [4.0, 9.0]


def test_a_shared_second_moments_first_round_is_plain_and_what_is_sent_is_unbiased():
    """beta = 0.9 after two updates: 0.19 stands for 1."""
    method = client("shared-moment", [0.0, 0.0])
    own = moments([0.19, 0.38], updates=2)
    assert method.moments(own) is own
    sends, kept = method.finish(torch.zeros(2), own)
    assert sends["second"].tolist() == pytest.approx([1.0, 2.0])
    assert kept == {}


MEANS = [("shared-moment", "second"), ("fedadamw", "second_means")]


@pytest.mark.parametrize(("name", "vector"), MEANS)
def test_absent_clients_keep_their_share_of_mean_second_moments(name, vector):
    """Two of four answered: half of the past mean stays, also where those two have nothing."""
    absorb, rate = LOCAL_METHODS[name].absorb, {"rate": torch.zeros(1)}
    extras = [{vector: torch.tensor(v), **rate} for v in ([1.0, 0.0], [3.0, 0.0])]
    update = torch.zeros(2, dtype=torch.float64)
    state = absorb({}, Delivered(iter(extras), [0.9, 0.1], 4, update))
    assert state[vector].tolist() == [2.0, 0.0]
    state = absorb({vector: torch.tensor([9.0, 8.0])}, Delivered(iter(extras), [0.9, 0.1], 4, update))
    assert state[vector].tolist() == [5.5, 4.0]
    state = absorb({vector: torch.tensor([9.0, 8.0])}, Delivered(iter(extras), [0.9, 0.1], 2, update))
    assert state[vector].tolist() == [2.0, 0.0]
