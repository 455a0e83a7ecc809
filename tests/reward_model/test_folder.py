"""Reward models in folders: the same scores after loading, and damage that is told."""

import json

import pytest
import torch
from safetensors.torch import save_file

from hanse.errors import RunError
from hanse.reward_model.folder import HEAD_FILE, RECORD, load_reward_model, save_reward_model
from tests.reward_model.made import make_learner, make_model, make_task


def trained(**policy):
    model = make_model(**policy)
    learner = make_learner(model)
    problems = make_task(clients=[1]).problems("train")
    state = learner.fresh_state()
    for _ in range(3):
        learner.step(problems, state)
    return learner, problems


@pytest.mark.parametrize("train", ["full", "lora"])
def test_what_is_loaded_scores_the_same(tmp_path, train):
    learner, problems = trained(train=train)
    expected = learner.margins(problems)
    save_reward_model(learner.model, tmp_path / "model", {"local_steps": 2}, "A card.")
    model, settings = load_reward_model(tmp_path / "model", "cpu")
    assert torch.equal(make_learner(model).margins(problems), expected)
    assert settings == {"local_steps": 2}
    assert (tmp_path / "model" / "README.md").read_text() == "A card."


def test_a_head_on_a_frozen_backbone_is_saved_whole(tmp_path):
    learner = make_learner(make_model(train_backbone=False))
    learner.model.parameters.master.fill_(0.5)
    save_reward_model(learner.model, tmp_path / "model", {})
    problems = make_task().problems("train")[:4]
    model, _ = load_reward_model(tmp_path / "model", "cpu")
    assert torch.equal(make_learner(model).margins(problems), learner.margins(problems))


def test_saving_leaves_the_model_training_as_before(tmp_path):
    learner, problems = trained()
    save_reward_model(learner.model, tmp_path / "model", {})
    learner.model.parameters.load(torch.zeros(learner.model.parameters.numel))
    assert learner.margins(problems).abs().max() == 0  # the model computes with the learner's values again
    state = learner.fresh_state()
    learner.model.parameters.load(make_model().parameters.master)
    assert learner.step(problems, state)["grad_norm"] > 0


def test_a_moved_folder_loads(tmp_path):
    learner, problems = trained(train="lora")
    save_reward_model(learner.model, tmp_path / "model", {})
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    model, _ = load_reward_model(tmp_path / "elsewhere", "cpu")
    assert torch.equal(make_learner(model).margins(problems), learner.margins(problems))


def damage_record(folder):
    (folder / RECORD).write_text("{")


def damage_tokens(folder):
    record = json.loads((folder / RECORD).read_text())
    (folder / RECORD).write_text(json.dumps(record | {"max_tokens": 1 << 40}))


def damage_head(folder):
    save_file({"weight": torch.ones(1, 16)}, folder / HEAD_FILE)


def damage_head_file(folder):
    (folder / HEAD_FILE).write_bytes(b"nothing")


def damage_backbone(folder):
    path = folder / "backbone" / "hanse.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"trained_sha256": "0"}))


def damage_digest(folder):
    path = folder / "backbone" / "hanse.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"trained_sha256": 5}))


def claim_layers(folder):
    path = folder / "backbone" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": 10**9}))


def add_pickle(folder):
    (folder / "backbone" / "model.safetensors").unlink()
    (folder / "backbone" / "pytorch_model.bin").write_bytes(b"cos\nsystem\n.")


def swell(folder):
    (folder / RECORD).write_text(" " * ((1 << 24) + 1))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damage_digest, "not a policy that hanse saved"),
        (claim_layers, "more than 1024 are not read"),
        (add_pickle, "may hold code"),
        (swell, "larger than 16 MiB"),
        (damage_record, "is not a reward model"),
        (damage_tokens, "is damaged"),
        (damage_head, "not the one that was saved"),
        (damage_head_file, "cannot be read"),
        (damage_backbone, "not those that were saved"),
    ],
)
def test_damage_is_told(tmp_path, damage, words):
    save_reward_model(make_model(), tmp_path / "model", {})
    damage(tmp_path / "model")
    with pytest.raises(RunError, match=words):
        load_reward_model(tmp_path / "model", "cpu")
