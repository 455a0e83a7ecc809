"""The README of a trained policy says how to load it, and what is true of its run."""

from __future__ import annotations

import re

import pytest
import torch

import hanse
from hanse import runs
from hanse.policy.export import load_trained, save_policy
from hanse.recipe.load import load_recipe
from hanse.recipe.model import TinyPolicy
from hanse.runs.model_card import model_card

LORA = {"policy": {"type": "tiny", "train": "lora"}}


def card(*overrides: str, rounds: int = 2, **document) -> str:
    return model_card(load_recipe(document, overrides), {"rounds": rounds}, [])


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_code_of_the_card_loads_an_adapter_that_was_moved(tmp_path):
    policy = hanse.build_policy(TinyPolicy(train="lora"), seed=0)
    policy.parameters.load(torch.randn(policy.parameters.numel, generator=torch.Generator().manual_seed(0)))
    save_policy(policy, tmp_path / "out", card=card(**LORA))
    (tmp_path / "out").rename(tmp_path / "moved")
    text = (tmp_path / "moved" / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict = {}
    exec(code.replace("PATH-OF-THIS-FOLDER", str(tmp_path / "moved")), names)
    ids = names["tokenizer"]("123+456=", return_tensors="pt")["input_ids"]
    wanted = load_trained(tmp_path / "moved").model
    assert torch.equal(names["model"].eval()(ids).logits, wanted(ids).logits)
    assert "--merge" in text


def test_an_adapter_on_a_named_base_loads_by_that_name():
    task = {"type": "jsonl", "path": "/p"}
    text = card(policy={"type": "hf", "path": "org/model", "train": "lora"}, task=task)
    assert "AutoPeftModelForCausalLM.from_pretrained" in text and "/base" not in text


@pytest.mark.parametrize(("rounds", "words"), [(1, "Hanse, 1 round."), (2, "Hanse, 2 rounds.")])
def test_rounds_are_counted(rounds, words):
    assert words in card(rounds=rounds)


def test_rewards_are_named():
    assert "rewarded for that alone" in card()
    rewards = [{"name": "exact"}, {"path": "mine.py:po_lite", "weight": 0.2}]
    text = card(rewards=rewards)
    assert "rewarded by exact, po\\_lite (weight 0.2); nothing else" in text
    assert "for that alone" not in text


def test_privacy_lists_what_leaves_a_client():
    assert "mean rewards, the mean standard deviation of rewards within groups, and counts" in flat(card())


def test_a_merged_export_has_a_card_of_its_own(tmp_path):
    from tests.end_to_end.small import small_recipe

    run = hanse.train(small_recipe("policy.train=lora", "grpo.lr=1e-2", rounds=1), out=tmp_path)
    text = (runs.export(run.folder, tmp_path / "merged", merge=True) / "README.md").read_text()
    assert "library_name: transformers" in text and "peft" not in text
    assert "merged into the base" in text and "Who owned the problems" in text


def swarm_card(*overrides: str) -> str:
    summary = {"rounds": 3, "swarm": {"attack_success": 0.625, "honest_rejects": 0.0}}
    document = {"mode": "swarm", "grpo": {"local_steps": 1}, "swarm": {"nodes": 4}}
    return flat(model_card(load_recipe(document, overrides), summary, []))


def test_a_swarm_is_told_with_its_defences_and_what_travelled():
    text = swarm_card()
    assert "horizontal swarm of 4 nodes with the default chain of defences" in text
    assert "Answers, tests and rewards did not travel" in text and "2511.09780" in text
    assert "Attacked on purpose" not in text and "FedAvg" not in text


def test_a_model_that_was_attacked_says_so():
    text = swarm_card("adversary.nodes=[3]", 'adversary.completions.type="dos"')
    assert "node-3 of 4 nodes lied by DoS. At the end 62.5% of honest completions showed it." in text
    assert "Defences rejected 0% of what honest nodes sent. Do not use it for anything else." in text


def test_scores_by_clients_are_told_with_what_they_were_made_by():
    text = flat(card(mode="reward-only", reward_only={"experts": 3}))
    assert "scored by 3 of 5 clients a question, by competence, by their own models' answers" in text
    assert "has read the server's questions" in text and "Parameters did not travel" in text
    assert "2602.12014" in text and "FedAvg" not in text
    models = flat(card(mode="reward-only", reward_only={"models": ["x"] * 5, "choice": "random"}))
    assert "by random, by reward models of their own" in models
