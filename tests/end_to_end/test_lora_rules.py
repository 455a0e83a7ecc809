"""Runs of a few seconds for every LoRA aggregation rule."""

from __future__ import annotations

from contextlib import closing
from functools import cache

import pytest
import torch
from peft import AutoPeftModelForCausalLM
from safetensors.torch import load_file

import hanse
from hanse.policy.export import load_trained
from hanse.runs.cohorts import build_cohorts, load_cohorts
from hanse.runtime.host import Host
from tests.end_to_end.small import small_recipe

EXACT = ("ffa", "rolora")
RULES = ("mean", "flexlora", *EXACT)


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
    named = load_file(run.policy / "adapter_model.safetensors")
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


def evaluated(run, ids: torch.Tensor) -> torch.Tensor:
    """Logits of what the run evaluated last, rebuilt from its last checkpoint."""
    host = Host(loaded := hanse.load_recipe(run.folder / "recipe.toml"), run.folder / "start.safetensors", [])
    with closing(host), torch.no_grad():
        cohorts = build_cohorts(loaded, ["level-1", "level-2"], host.initial, host.layout)
        load_cohorts(run.folder / "rounds" / "000003", cohorts)
        host.hold(cohorts[0].server.values().numpy())
        return host.policy.model(ids).logits


@pytest.mark.parametrize("rule", RULES)
def test_what_is_saved_computes_what_was_evaluated(runs, rule):
    """Promise 7, case L3."""
    run, ids = runs(rule), torch.tensor([[3, 4, 12, 5, 13], [2, 2, 12, 9, 13]])
    model = AutoPeftModelForCausalLM.from_pretrained(run.policy)
    with torch.no_grad():
        assert torch.equal(model(ids).logits, evaluated(run, ids))
    load_trained(run.policy)
