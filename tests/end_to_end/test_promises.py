"""The promises of the design, on whole runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

import hanse
from tests.end_to_end.small import StopAfter, small_recipe, without_times


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return hanse.train(small_recipe(), out=tmp_path_factory.mktemp("reference"))


def test_one_client_with_fedavg_equals_central_bit_for_bit(tmp_path):
    alone = {"partition": {"clients": 1, "by": "iid"}}
    federated = hanse.train(small_recipe(mode="federated", **alone), out=tmp_path)
    central = hanse.train(small_recipe(mode="central", **alone), out=tmp_path)
    assert federated.summary["policy_sha256"] == central.summary["policy_sha256"]
    initial = load_file(federated.folder / "start.safetensors")
    final = load_file(federated.policy / "model.safetensors")
    assert any(not torch.equal(initial[name], final[name]) for name in initial)


def test_workers_do_not_change_a_bit(reference, tmp_path):
    pooled = hanse.train(small_recipe("runtime.workers=2"), out=tmp_path)
    assert pooled.summary["policy_sha256"] == reference.summary["policy_sha256"]
    assert without_times(pooled.metrics("step")) == without_times(reference.metrics("step"))
    assert pooled.summary["evaluation"] == reference.summary["evaluation"]


@pytest.mark.parametrize("stop_after", [0, 1, 3])
def test_resumed_equals_uninterrupted(reference, tmp_path, stop_after):
    with pytest.raises(KeyboardInterrupt):
        hanse.train(small_recipe(), out=tmp_path, progress=StopAfter(stop_after))
    (folder,) = tmp_path.iterdir()
    resumed = hanse.resume(folder)
    assert resumed.summary["policy_sha256"] == reference.summary["policy_sha256"]
    assert resumed.summary["evaluation"] == reference.summary["evaluation"]
    assert resumed.summary["bytes"] == reference.summary["bytes"]
    for kind in ("step", "round"):
        assert without_times(resumed.metrics(kind)) == without_times(reference.metrics(kind))
    for file in ("completions.jsonl", "partition.json"):
        assert (folder / file).read_text() == (reference.folder / file).read_text()


def test_only_the_newest_two_rounds_are_kept(reference):
    assert sorted(p.name for p in (reference.folder / "rounds").iterdir()) == ["000002", "000003"]


def test_resuming_a_finished_run_returns_it(reference):
    before = (reference.folder / "summary.json").read_bytes()
    assert hanse.resume(reference.folder).summary == reference.summary
    assert (reference.folder / "summary.json").read_bytes() == before


def test_the_saved_policy_is_the_evaluated_one(reference):
    """Promise 7: plain transformers, no hanse, same greedy answers and same values."""
    model = AutoModelForCausalLM.from_pretrained(reference.policy)
    tokenizer = AutoTokenizer.from_pretrained(reference.policy)
    server = load_file(reference.folder / "rounds" / "000003" / "server-0000.safetensors")["master"]
    named = sorted(model.named_parameters())
    assert torch.equal(torch.cat([p.detach().reshape(-1) for _, p in named]), server)
    rows = [json.loads(line) for line in (reference.folder / "completions.jsonl").read_text().splitlines()]
    greedy = [row for row in rows if row["when"] == "after" and row["greedy"]]
    assert greedy
    for row in greedy:
        inputs = tokenizer(row["prompt"], return_tensors="pt", return_token_type_ids=False)
        made = model.generate(**inputs, do_sample=False, max_new_tokens=5)
        text = tokenizer.decode(made[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        assert text == row["completion"]


def test_a_run_leaves_what_the_design_says(reference):
    names = {p.name for p in reference.folder.iterdir()}
    assert names >= {
        "recipe.toml",
        "metrics.jsonl",
        "completions.jsonl",
        "summary.json",
        "report.html",
        "policy",
        "policy-best",
        "rounds",
    }
    summary = json.loads((reference.folder / "summary.json").read_text())
    assert summary["mode"] == "federated"
    assert summary["rounds"] == 3
    assert 0 <= summary["evaluation"]["initial"]["accuracy"] <= 1
    assert set(summary["evaluation"]["final"]["by_level"]) == {"1", "2"}
    assert summary["bytes"]["up"] == sum(row["comm/bytes_up"] for row in reference.metrics()[1:])
    parameters = sum(t.numel() for t in load_file(reference.folder / "start.safetensors").values())
    assert summary["bytes"]["up"] >= 3 * 2 * 4 * parameters
    assert hanse.load_recipe(reference.folder / "recipe.toml") == small_recipe()


def test_local_mode_trains_everybody_alone(tmp_path):
    run = hanse.train(small_recipe(mode="local", rounds=1), out=tmp_path)
    assert set(run.summary["policy_sha256"]) == {"level-1", "level-2"}
    assert len(set(run.summary["policy_sha256"].values())) == 2
    assert set(run.summary["evaluation"]["final"]["by_client"]) == {"level-1", "level-2"}
    for client in ("level-1", "level-2"):
        AutoModelForCausalLM.from_pretrained(run.policy / client)


def test_a_bfloat16_policy_exchanges_what_it_computes_with(tmp_path):
    recipe = small_recipe("policy.dtype=bfloat16", "federation.codec=dense", rounds=2)
    run = hanse.train(recipe, out=tmp_path)
    parameters = sum(t.numel() for t in load_file(run.folder / "start.safetensors").values())
    sent = run.metrics()[1]["comm/bytes_up"]
    assert 2 * 2 * parameters <= sent <= 2 * 2 * parameters + 4096
    master = load_file(run.folder / "rounds" / "000002" / "server-0000.safetensors")["master"]
    assert master.dtype == torch.float32
    residual = load_file(run.folder / "rounds" / "000002" / "client-0000.safetensors")["residual"]
    assert residual.abs().max() > 0
    model = AutoModelForCausalLM.from_pretrained(run.policy, dtype="auto")
    values = torch.cat([p.detach().reshape(-1) for _, p in sorted(model.named_parameters())])
    assert values.dtype == torch.bfloat16
    assert torch.equal(values, master.bfloat16())


def test_stopping_at_a_target_is_recorded(tmp_path):
    run = hanse.train(small_recipe("evaluation.patience=1", "grpo.lr=1e-9", rounds=6), out=tmp_path)
    assert run.summary["rounds"] < 6
    assert "evaluation.patience" in run.summary["stopped"]
    assert Path(run.folder / "report.html").exists()


def test_lora_leaves_an_adapter_that_plain_peft_loads(tmp_path):
    from peft import AutoPeftModelForCausalLM

    run = hanse.train(small_recipe("policy.train=lora", "grpo.lr=1e-2"), out=tmp_path)
    master = load_file(run.folder / "rounds" / "000003" / "server-0000.safetensors")["master"]
    model = AutoPeftModelForCausalLM.from_pretrained(run.policy)
    factors = sorted((name, p) for name, p in model.named_parameters() if "lora_" in name)
    assert torch.equal(torch.cat([p.detach().reshape(-1) for _, p in factors]), master)
    assert any(p.abs().max() > 0 for name, p in factors if "lora_B" in name)
    start = load_file(run.folder / "start.safetensors")
    base = load_file(run.policy / "base" / "model.safetensors")
    assert all(torch.equal(start[name], base[name]) for name in start)
