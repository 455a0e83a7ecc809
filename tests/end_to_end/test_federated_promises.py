"""What federations of every kind promise: resuming, workers and a single client change no bit."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

import hanse
from tests.end_to_end.small import StopAfter, small_recipe, without_times

FIFTH = "federation.budget.fraction=0.2"
BUDGET = (FIFTH, "policy.dtype=bfloat16")
LAST = "rounds/000003"
RESUMED = {
    "budget": BUDGET,
    "scaffold": ("federation.local=scaffold",),
    "fedadamw": ("federation.local=fedadamw", "federation.server_optimizer=momentum"),
    "participation": ("federation.participation=0.5", "federation.exchange_dtype=bfloat16"),
    "signal": ("federation.weighting=reward-std", "federation.weights.ema=0.5"),
    "refused": (FIFTH, "federation.screening.reward_range=[0.0, 0.45]", "adversary.clients=[1]"),
    "lagged": (
        "federation.budget.fraction=0.2",
        "federation.budget.grant=lagged",
        "federation.budget.bits=4",
    ),
    "rollouts": ("federation.rollouts=informative", "grpo.group_size=2", "grpo.prompts_per_step=12"),
    "screened": (
        "federation.rollouts=informative",
        "grpo.screening=joined",
        "grpo.screen_size=2",
        "grpo.deepen=2",
    ),
    "variance": ("grpo.allocation=variance",),
}
CHANGED = {"rounds": 3, "evaluation": {"every": 3, "problems_per_level": 2, "samples": 1}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Uninterrupted runs, made once."""
    made = {}

    def run(name: str):
        if name not in made:
            out = tmp_path_factory.mktemp(name)
            made[name] = hanse.train(small_recipe(*RESUMED[name], **CHANGED), out=out)
        return made[name]

    return run


def tensors_of(run, part):
    return load_file(run.folder / LAST / f"{part}.safetensors")


def of_steps(run, name):
    return [row[name] for row in run.metrics("step")]


def assert_same(run, other):
    assert run.summary["policy_sha256"] == other.summary["policy_sha256"]
    for kind in ("round", "step"):
        assert without_times(run.metrics(kind)) == without_times(other.metrics(kind))
    for part in ("server-0000", "client-0000", "client-0001"):
        a, b = tensors_of(run, part), tensors_of(other, part)
        assert a.keys() == b.keys()
        assert all(torch.equal(a[name], b[name]) for name in a), part


@pytest.mark.parametrize("name", RESUMED)
def test_resumed_equals_uninterrupted(name, whole, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hanse.train(small_recipe(*RESUMED[name], **CHANGED), out=tmp_path, progress=StopAfter(2))
    (folder,) = tmp_path.iterdir()
    assert_same(hanse.resume(folder), whole(name))


def test_workers_do_not_change_a_bit_of_a_budgeted_run(whole, tmp_path):
    run = hanse.train(small_recipe(*BUDGET, "runtime.workers=2", **CHANGED), out=tmp_path)
    assert_same(run, whole("budget"))


def test_what_the_switches_kept_is_there(whole):
    """So that the comparisons above compare something."""
    tensors = {name: tensors_of(whole(name), "client-0000") for name in ("budget", "scaffold")}
    assert float(tensors["budget"]["unsent"].abs().max()) > 0
    assert float(tensors["budget"]["residual"].abs().max()) > 0
    assert float(tensors["scaffold"]["kept/control"].abs().max()) > 0
    served = tensors_of(whole("fedadamw"), "server-0000")
    assert {"optimizer/velocity", "local/second_means", "local/global_step"} <= set(served)
    assert whole("refused").summary["counters"]["refused_uploads"] == 3
    assert float(tensors_of(whole("refused"), "client-0001")["unsent"].abs().max()) > 0
    rollouts = of_steps(whole("rollouts"), "rollouts")
    assert len(set(rollouts)) > 1
    assert sum(rollouts) == 3 * 2 * 2 * 24
    assert set(of_steps(whole("variance"), "rollouts")) == {16}
    assert bool(tensors_of(whole("variance"), "client-0000")["success"].max() >= 0)
    rows = whole("participation").metrics()[1:]
    assert all(sum(key.endswith("/update_norm") for key in row) == 1 for row in rows)


ALONE = {
    "aggregators": ("federation.aggregation=masked",),
    "norms": ("federation.aggregation=norm-equalised",),
    "signs": ("federation.aggregation=sign-consensus",),
    "rollouts": ("federation.rollouts=informative",),
    "signals": (
        "federation.weighting=reward-std",
        "federation.local=fednova",
        "federation.server_optimizer=plain",
    ),
    "patches": ("federation.codec=small", "federation.budget.fraction=1.0"),
}


@pytest.fixture(scope="module")
def central(tmp_path_factory):
    return alone(tmp_path_factory.mktemp("central"), "mode=central")


def alone(out, *overrides):
    changes = {"task": {"levels": 1}, "partition": {"clients": 1}, "rounds": 2}
    warmup = ("policy.warmup.mix_by_level=[1.0]", "policy.warmup.right_by_level=[0.5]")
    return hanse.train(small_recipe(*warmup, *overrides, **changes), out=out)


@pytest.mark.parametrize("name", ALONE)
def test_one_client_is_central_training_bit_for_bit(name, central, tmp_path):
    assert alone(tmp_path, *ALONE[name]).summary["policy_sha256"] == central.summary["policy_sha256"]
