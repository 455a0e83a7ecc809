"""R1, R2, R8, R9, R3 and G23: what goes wrong when runs are stopped, continued, or very short."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import hanse
from tests.end_to_end.small import StopAfter, small_recipe, without_times


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return hanse.train(small_recipe(), out=tmp_path_factory.mktemp("reference"))


def stopped(out: Path, after: int) -> Path:
    with pytest.raises(KeyboardInterrupt):
        hanse.train(small_recipe(), out=out, progress=StopAfter(after))
    (folder,) = out.iterdir()
    return folder


def test_r1_r2_a_resumed_run_draws_the_problems_and_numbers_that_come_next(reference, tmp_path):
    folder = stopped(tmp_path, 2)
    seen = load_client(folder, 2)
    resumed = hanse.resume(folder)
    assert load_client(folder, 3)["cursor"] == seen["cursor"] + 8
    assert load_client(folder, 3) == load_client(reference.folder, 3)
    last = [row for row in without_times(resumed.metrics("step")) if row["round"] == 3]
    assert last == [row for row in without_times(reference.metrics("step")) if row["round"] == 3]
    assert last != [row for row in without_times(resumed.metrics("step")) if row["round"] == 1]


def load_client(folder: Path, number: int) -> dict:
    from safetensors import safe_open

    with safe_open(folder / "rounds" / f"{number:06d}" / "client-0000.safetensors", framework="pt") as file:
        return json.loads(file.metadata()["hanse"])


def test_r3_the_base_of_an_adapter_is_the_same_after_training_and_export(tmp_path):
    run = hanse.train(small_recipe("policy.train=lora", "grpo.lr=1e-2"), out=tmp_path)
    start = load_file(run.folder / "start.safetensors")
    for folder in ("policy", "policy-best"):
        base = load_file(run.folder / folder / "base" / "model.safetensors")
        assert all(torch.equal(start[name], base[name]) for name in start)


def test_r8_a_half_written_checkpoint_is_not_used(reference, tmp_path):
    folder = stopped(tmp_path, 2)
    shutil.copytree(folder / "rounds" / "000002", folder / "rounds" / ".000003.tmp")
    (folder / "rounds" / ".000003.tmp" / "ledger.json").write_text("{")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "step", "round": 3, "cut')
    assert hanse.resume(folder).summary["policy_sha256"] == reference.summary["policy_sha256"]


def test_r9_one_call_resumes_lora_as_it_resumes_all(tmp_path):
    changes = ("policy.train=lora", "grpo.lr=1e-2")
    whole = hanse.train(small_recipe(*changes), out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        hanse.train(small_recipe(*changes), out=tmp_path / "cut", progress=StopAfter(1))
    (folder,) = (tmp_path / "cut").iterdir()
    assert hanse.resume(folder).summary["policy_sha256"] == whole.summary["policy_sha256"]


def test_g23_the_shortest_run_leaves_metrics_and_a_policy(tmp_path):
    run = hanse.train(small_recipe("grpo.local_steps=1", rounds=1), out=tmp_path)
    assert [row["round"] for row in run.metrics()] == [0, 1]
    assert len(run.metrics("step")) == 2
    assert (run.policy / "model.safetensors").is_file()
