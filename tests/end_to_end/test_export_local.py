"""Exports of a run in which everybody trained alone: one policy a client."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

import hanse
from hanse import runs
from hanse.policy.export import load_trained
from hanse.policy.lora import base_state
from tests.end_to_end.small import small_recipe


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    recipe = small_recipe("policy.train=lora", "grpo.lr=1e-2", mode="local", rounds=1)
    return hanse.train(recipe, out=tmp_path_factory.mktemp("local"))


def test_merging_folds_every_clients_adapter_into_its_base(run, tmp_path):
    out = runs.export(run.folder, tmp_path / "merged", merge=True)
    names = sorted(path.name for path in run.policy.iterdir())
    assert sorted(path.name for path in out.iterdir()) == names and len(names) == 2
    for name in names:
        assert not (out / name / "adapter_config.json").exists()
        merged = load_file(out / name / "model.safetensors")
        wanted = base_state(load_trained(run.policy / name).model, merged=True)
        assert all(torch.equal(tensor, wanted[key]) for key, tensor in merged.items())


def test_copied_adapters_name_the_bases_that_were_copied_with_them(run, tmp_path):
    out = runs.export(run.folder, tmp_path / "copy")
    for folder in out.iterdir():
        config = json.loads((folder / "adapter_config.json").read_text())
        assert config["base_model_name_or_path"] == str(folder / "base")


def test_policies_without_lora_are_copied(tmp_path):
    run = hanse.train(small_recipe(mode="local", rounds=1), out=tmp_path)
    out = runs.export(run.folder, tmp_path / "merged", merge=True)
    for folder in run.policy.iterdir():
        mine = (out / folder.name / "model.safetensors").read_bytes()
        assert mine == (folder / "model.safetensors").read_bytes()
