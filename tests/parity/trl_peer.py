"""TRL's trainer on given completions: only the call that generates is replaced, all else is TRL's own.

It runs `train()`; what is read off is the loss of each `compute_loss`, the gradients before each optimiser
step, the parameters after it, and the advantages. TRL's default of multiplying the KL by the ratio
(DeepSeek-V3.2's unbiased KL) is switched off: ours is the plain k3 of the GRPO paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from transformers import AutoModelForCausalLM, TrainerCallback, TrainerControl
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.trainer import grpo_trainer, rloo_trainer

from hanse.policy.policy import Policy
from hanse.policy.rollout import Group

NO_CLIP = 1e9
LEARNING_RATE = 5e-3
"""Large, so that the second update is far off policy."""


@dataclass
class Trained:
    """What one run of the peer did, one entry an update."""

    losses: list[float] = field(default_factory=list)
    gradients: list[dict[str, Tensor]] = field(default_factory=list)
    parameters: list[dict[str, Tensor]] = field(default_factory=list)
    advantages: Tensor | None = None
    metrics: dict[str, list[float]] = field(default_factory=dict)


class _Watch(TrainerCallback):
    def __init__(self, trained: Trained) -> None:
        self.trained = trained

    def on_pre_optimizer_step(self, *_: Any, model: torch.nn.Module, **__: Any) -> None:
        gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in _named(model)}
        self.trained.gradients.append({n: g.clone() for n, g in gradients.items()})

    def on_step_end(
        self, _: Any, __: Any, control: TrainerControl, model: torch.nn.Module, **___: Any
    ) -> TrainerControl:
        self.trained.parameters.append({n: p.detach().clone() for n, p in _named(model)})
        return control


def _named(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    return [(n, p) for n, p in model.named_parameters() if p.requires_grad]


def save_reference(policy: Policy, reference: Tensor, folder: Path) -> Path:
    """The reference's weights in a folder: TRL builds its reference model from the model's own origin."""
    with policy.parameters.replaced_by(reference):
        policy.model.save_pretrained(folder)
    policy.tokenizer.save_pretrained(folder)
    return folder


def train_peer(folder: Path, policy: Policy, groups: Sequence[Group], updates: int, **config: Any) -> Trained:
    """Run `updates` optimiser steps of TRL's GRPOTrainer, or its RLOOTrainer if `config` has rloo=True."""
    rloo = config.pop("rloo", False)
    trained = Trained()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.load_state_dict(policy.model.state_dict())
    rewards = [r for g in groups for r in g.rewards_G.tolist()]
    if not rloo:
        config.setdefault("use_bias_correction_kl", False)
    trainer = (RLOOTrainer if rloo else GRPOTrainer)(
        model=model,
        reward_funcs=lambda completions, **_: [None if r != r else r for r in rewards[: len(completions)]],
        args=(RLOOConfig if rloo else GRPOConfig)(**_arguments(folder, groups, updates) | config),
        train_dataset=Dataset.from_list([{"prompt": g.problem.prompt} for g in groups]),
        processing_class=policy.tokenizer,
        callbacks=[_Watch(trained)],
    )
    _give_completions(trainer, groups, rloo)
    _record(trainer, trained)
    trainer.train()
    return trained


def _arguments(folder: Path, groups: Sequence[Group], updates: int) -> dict[str, Any]:
    G = groups[0].size
    return {
        "output_dir": str(folder / "trl"),
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": [],
        "logging_strategy": "no",
        "save_strategy": "no",
        "disable_tqdm": True,
        "per_device_train_batch_size": len(groups) * G,
        "num_generations": G,
        "max_completion_length": groups[0].tokens_GT.shape[1],
        "steps_per_generation": 1,
        "gradient_accumulation_steps": 1,
        "max_steps": updates,
        "num_iterations": updates,
        "learning_rate": LEARNING_RATE,
        "lr_scheduler_type": "constant",
        "adam_beta1": 0.9,
        "adam_beta2": 0.99,
        "max_grad_norm": NO_CLIP,
        "shuffle_dataset": False,
        "beta": 0.0,
    }


def _give_completions(trainer: Any, groups: Sequence[Group], rloo: bool) -> None:
    completions = [ids for g in groups for ids in g.token_ids_G()]

    def generate(self: Any, *_: Any, **__: Any) -> Any:
        return completions if rloo else (completions, None)

    trainer._generate_single_turn = MethodType(generate, trainer)


def _record(trainer: Any, trained: Trained) -> None:
    compute, generate = trainer.compute_loss, trainer._generate_and_score_completions

    def compute_loss(*args: Any, **kwargs: Any) -> Tensor:
        loss: Tensor = compute(*args, **kwargs)
        trained.losses.append(float(loss.detach()))
        trained.metrics = {name: list(values) for name, values in trainer._metrics["train"].items()}
        return loss

    def generate_and_score(inputs: Any) -> Any:
        output = generate(inputs)
        trained.advantages = output["advantages"].clone()
        return output

    trainer.compute_loss, trainer._generate_and_score_completions = compute_loss, generate_and_score


def keep_order(monkeypatch: Any) -> None:
    """TRL shuffles rollouts before it cuts them into mini-batches; ours are cut in order."""
    for module in (grpo_trainer, rloo_trainer):
        monkeypatch.setattr(module, "shuffle_sequence_dict", lambda batch: batch)
