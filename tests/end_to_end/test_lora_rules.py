"""Runs of a few seconds for every LoRA aggregation rule."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from functools import cache

import pytest
import torch
from peft import AutoPeftModelForCausalLM
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import hanse
from hanse.policy.export import load_trained
from hanse.policy.lora import base_sha256
from hanse.runs import api
from hanse.runs.cohorts import build_cohorts, load_cohorts
from hanse.runs.models import current_models
from hanse.runtime.host import Host
from hanse.runtime.local import InTurn
from tests.end_to_end.small import StopAfter, small_recipe, without_times

LIFTING = ("flora", "fedex")
EXACT = ("ffa", "rolora", *LIFTING)
RULES = ("mean", "flexlora", *EXACT)
NAMES = ["level-1", "level-2"]


def recipe(rule: str, *overrides: str):
    lora = ("policy.train=lora", "policy.lora.rank=4", "policy.lora.alpha=8", "grpo.lr=1e-2")
    return small_recipe(*lora, f"federation.aggregation={rule}", *overrides)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    @cache
    def run(rule: str):
        return hanse.train(recipe(rule), out=tmp_path_factory.mktemp(rule))

    return run


def checkpoint(run, number: int, name: str = "server-0000") -> dict[str, torch.Tensor]:
    return load_file(run.folder / "rounds" / f"{number:06d}" / f"{name}.safetensors")


def letters(run, values: torch.Tensor) -> dict[str, torch.Tensor]:
    """The entries of all A, and of all B."""
    named = load_file(next(run.policy.rglob("adapter_model.safetensors")))
    parts = dict(zip(sorted(named), values.split([named[n].numel() for n in sorted(named)]), strict=True))
    return {x: torch.cat([p for n, p in parts.items() if f"lora_{x}" in n]) for x in "AB"}


@pytest.mark.parametrize("rule", RULES)
def test_every_round_logs_its_residual(runs, rule):
    rows = runs(rule).metrics()[1:]
    residuals = [row["federation/lora_residual"] for row in rows]
    if rule in EXACT:
        assert max(residuals) < 1e-6
    else:
        assert min(residuals) > 1e-4


def test_full_training_has_no_residual(tmp_path):
    rows = hanse.train(small_recipe(rounds=1), out=tmp_path).metrics()
    assert not any("federation/lora_residual" in row for row in rows)


def test_ffa_neither_trains_nor_sends_a(runs):
    run = runs("ffa")
    before, after = (letters(run, checkpoint(run, n)["master"]) for n in (2, 3))
    assert torch.equal(before["A"], after["A"]) and not torch.equal(before["B"], after["B"])
    moments = letters(run, checkpoint(run, 3, "client-0000")["first"])
    assert not moments["A"].any() and moments["B"].any()
    half = 4 * len(after["B"])
    for row in run.metrics()[1:]:
        assert row["comm/bytes_up"] < 2 * (half + 1500)


def test_rolora_alternates(runs):
    run = runs("rolora")
    before, after = (letters(run, checkpoint(run, n)["master"]) for n in (2, 3))
    assert torch.equal(before["A"], after["A"]) and not torch.equal(before["B"], after["B"])
    moments = [letters(run, checkpoint(run, n, "client-0000")["first"]) for n in (2, 3)]
    assert moments[1]["A"].any() and torch.equal(moments[0]["A"], moments[1]["A"])
    assert not torch.equal(moments[0]["B"], moments[1]["B"])


@pytest.mark.parametrize("rule", ["mean", "ffa", "flexlora"])
def test_factors_travel_in_few_bits(tmp_path, rule):
    overrides = ("bits=4", "fraction=1.0", "error_feedback=off")
    made = recipe(rule, "rounds=2", *(f"federation.budget.{one}" for one in overrides))
    run = hanse.train(made, out=tmp_path)
    whole = checkpoint(run, 2)["master"].numel()
    assert run.summary["counters"]["refused_uploads"] == 0
    for row in run.metrics()[1:]:
        assert row["comm/bytes_up"] < 2 * (whole / 2 + 2500)
    assert not torch.equal(checkpoint(run, 1)["master"], checkpoint(run, 2)["master"])


@contextmanager
def evaluated(run):
    """The last models of a run, and the policy that computes with them, rebuilt from its last checkpoint."""
    made, last = hanse.load_recipe(run.folder / "recipe.toml"), run.folder / "rounds" / "000003"
    host = Host(made, run.folder / "start.safetensors", [0, 1])
    with closing(host), torch.no_grad():
        cohorts = build_cohorts(made, NAMES, host.initial, host.layout)
        load_cohorts(last, cohorts)
        host.load(last)
        yield host, current_models(cohorts, InTurn(host), NAMES)


@pytest.mark.parametrize("rule", [*RULES, "fedsa"])
def test_what_is_saved_computes_what_was_evaluated(runs, rule):
    """Promise 7, case L3."""
    run, ids = runs(rule), torch.tensor([[3, 4, 12, 5, 13], [2, 2, 12, 9, 13]])
    with evaluated(run) as (host, models):
        assert [m.name for m in models] == (NAMES if rule == "fedsa" else [None])
        for model in models:
            folder = run.policy / (model.name or "")
            host.hold(model.values.numpy())
            wanted = host.policy.model(ids).logits
            if rule in LIFTING:  # one model, in which products are summed in another order
                saved = AutoModelForCausalLM.from_pretrained(folder)
                assert torch.allclose(saved(ids).logits, wanted, atol=1e-5)
            else:
                assert torch.equal(AutoPeftModelForCausalLM.from_pretrained(folder)(ids).logits, wanted)
            load_trained(folder)


def test_fedsa_keeps_every_b_at_home(runs):
    run = runs("fedsa")
    common = letters(run, checkpoint(run, 3)["master"])
    assert not common["B"].any()
    own = [checkpoint(run, 3, f"client-{k:04d}")["personal"] for k in (0, 1)]
    assert not torch.equal(*own)
    for k, name in enumerate(NAMES):
        tensors = load_file(run.policy / name / "adapter_model.safetensors")
        for x, wanted in (("A", common["A"]), ("B", own[k])):
            parts = [tensors[n].flatten() for n in sorted(tensors) if f"lora_{x}" in n]
            assert torch.equal(torch.cat(parts), wanted)
    assert (
        set(run.summary["policy_sha256"])
        == set(run.summary["evaluation"]["final"]["by_client"])
        == set(NAMES)
    )
    assert not any("federation/lora_residual" in row for row in run.metrics())
    for row in run.metrics()[1:]:
        assert row["comm/bytes_up"] < 2 * (4 * len(common["A"]) + 1500)


@pytest.mark.parametrize("rule", ["fedsa", "flora"])
def test_resumed_equals_uninterrupted(runs, rule, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hanse.train(recipe(rule), out=tmp_path, progress=StopAfter(2))
    (folder,) = tmp_path.iterdir()
    again, run = hanse.resume(folder), runs(rule)
    for part in ("policy_sha256", "evaluation", "bytes"):
        assert again.summary[part] == run.summary[part]
    assert without_times(again.metrics()) == without_times(run.metrics())


@pytest.mark.parametrize("rule", ["fedsa"])
def test_workers_do_not_change_a_bit(runs, rule, tmp_path):
    pooled = hanse.train(recipe(rule, "runtime.workers=2"), out=tmp_path)
    assert pooled.summary["policy_sha256"] == runs(rule).summary["policy_sha256"]
    assert pooled.summary["evaluation"] == runs(rule).summary["evaluation"]


def test_evaluating_a_run_of_personal_policies_again(runs):
    run = runs("fedsa")
    measured = {"round": run.summary["rounds"], "finished": True}
    assert api.evaluate(run.folder) == run.summary["evaluation"]["final"] | measured


@pytest.mark.parametrize("rule", LIFTING)
def test_the_original_base_stays_and_is_the_reference(runs, rule):
    """Case R3, and decision 8."""
    run, ids = runs(rule), torch.tensor([[3, 4, 12, 5, 13]])
    with evaluated(run) as (host, (model,)):
        before, logits = base_sha256(host.policy.model), host.policy.model(ids).logits
        host.hold(model.values.numpy())
        lifted = host.policy.model(ids).logits
        assert not torch.equal(lifted, logits)
        with host.policy.reference():
            assert torch.equal(host.policy.model(ids).logits, logits)
            assert base_sha256(host.policy.model) == before
        assert torch.equal(host.policy.model(ids).logits, lifted)
        record = json.loads((run.policy / "hanse.json").read_text())
        assert record["base_sha256"] == before
        host.hold(host.initial.numpy())
        assert base_sha256(host.policy.model) == before


@pytest.mark.parametrize("rule", LIFTING)
def test_clients_follow_the_servers_offset(runs, rule):
    run = runs(rule)
    server, before = checkpoint(run, 3), checkpoint(run, 2)
    assert torch.equal(checkpoint(run, 3, "client-0001")["offset"], before["offset/total"])
    assert not torch.equal(server["offset/total"], before["offset/total"])
    plain = runs("mean").metrics()
    values = 4 * len(before["offset/step"])
    assert values <= 4 * len(before["offset/total"])
    for mine, other in zip(run.metrics()[2:], plain[2:], strict=True):
        assert 2 * values <= mine["comm/bytes_down"] - other["comm/bytes_down"] <= 2 * values + 400


def test_flora_starts_anew_every_round(runs):
    run = runs("flora")
    first, second = (checkpoint(run, n)["master"] for n in (2, 3))
    assert not torch.equal(first, second)
    pairs = int((second == 0).sum())
    assert 0 < pairs < second.numel()


def test_clients_that_miss_rounds_catch_up(tmp_path):
    made = recipe("flora", "federation.participation=0.5", "rounds=4")
    run = hanse.train(made, out=tmp_path)
    assert run.summary["counters"]["refused_uploads"] == 0


def test_a_penalty_on_leaving_the_original_base(tmp_path):
    run = hanse.train(recipe("flora", "grpo.beta=0.1", "rounds=2"), out=tmp_path)
    first, second = (
        [r["kl"] for r in run.metrics("step") if r["round"] == n and r["step"] == 0] for n in (1, 2)
    )
    assert max(map(abs, first)) < 1e-6 < min(second)
