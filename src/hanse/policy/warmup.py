"""Warm-up: supervised steps that give the tiny policy a skill worth reinforcing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from hanse.policy.logprobs import completion_logprobs
from hanse.policy.parameters import Parameters
from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampler, Sampling
from hanse.randomness import derive_seed, generator
from hanse.recipe.model import WarmupSpec
from hanse.tasks.problem import Problem

_CHECK_EVERY = 20
_CHECK_PROBLEMS = 64
_RAMP = 50


def warm_up(policy: Policy, levels_L: Sequence[Sequence[Problem]], spec: WarmupSpec, seed: int) -> int:
    """Train on answers until sampled accuracy, mean over levels, reaches `until_accuracy`; then
    `noisy_steps` more on answers that are right only with probability `right_by_level`.

    `levels_L` holds each level's training problems. Returns the number of steps done.
    """
    parameters = policy.parameters
    optimiser = torch.optim.AdamW([parameters.master], lr=spec.lr, betas=(0.9, 0.98), weight_decay=0.0)
    stop, noisy_from = spec.max_steps + spec.noisy_steps, spec.max_steps
    for step in range(stop):
        if step >= noisy_from + spec.noisy_steps:
            return step
        clean = step < noisy_from
        if (
            clean
            and step
            and step % _CHECK_EVERY == 0
            and _accuracy(policy, levels_L, seed) >= spec.until_accuracy
        ):
            noisy_from, clean = step, False
        optimiser.param_groups[0]["lr"] = spec.lr * min(1.0, (step + 1) / _RAMP)
        _step(policy, _batch(levels_L, spec, clean, seed, step), optimiser)
    return stop


def _batch(
    levels_L: Sequence[Sequence[Problem]], spec: WarmupSpec, clean: bool, seed: int, step: int
) -> list[tuple[Problem, str]]:
    """Problems drawn by the level mix, each with the answer to learn."""
    draw = generator(seed, "warmup", step)
    mix = np.array(spec.mix_by_level) / sum(spec.mix_by_level)
    rows = []
    for level in draw.choice(len(levels_L), spec.batch_size, p=mix).tolist():
        problem = levels_L[level][int(draw.integers(len(levels_L[level])))]
        answer = problem.answer or ""
        right = clean or draw.random() < spec.right_by_level[level]
        rows.append((problem, answer if right else _with_wrong_digit(answer, draw)))
    return rows


def _with_wrong_digit(answer: str, draw: np.random.Generator) -> str:
    """The answer with one digit changed."""
    place = int(draw.integers(len(answer)))
    digit = (int(answer[place]) + int(draw.integers(1, 10))) % 10
    return answer[:place] + str(digit) + answer[place + 1 :]


def _step(policy: Policy, rows: list[tuple[Problem, str]], optimiser: torch.optim.Optimizer) -> None:
    targets = [[*policy.encode(answer), policy.eos_ids[0]] for _, answer in rows]
    tokens = torch.tensor(targets).unsqueeze(1)
    prompts = [policy.encode(problem.prompt) for problem, _ in rows]
    descend(policy.parameters, optimiser, lambda: -completion_logprobs(policy, prompts, tokens, 1.0).mean())


def descend(parameters: Parameters, optimiser: torch.optim.Optimizer, loss: Callable[[], Tensor]) -> None:
    """One step of an optimiser that holds the master values."""
    parameters.start_gradients()
    loss().backward()
    parameters.master.grad = parameters.grad
    optimiser.step()
    parameters.master.grad = None


def _accuracy(policy: Policy, levels_L: Sequence[Sequence[Problem]], seed: int) -> float:
    """Sampled accuracy on training problems, mean over levels."""
    sampler = Sampler(policy, Sampling(max_new_tokens=len(levels_L[0][0].answer or "") + 1))
    means = []
    for level, problems in enumerate(levels_L):
        chosen = list(problems[:: max(1, len(problems) // _CHECK_PROBLEMS)])[:_CHECK_PROBLEMS]
        seeds = [derive_seed(seed, "warmup", level, i) for i in range(len(chosen))]
        groups = sampler.sample(chosen, 2, seeds)
        texts = policy.decode([row for group in groups for row in group.token_ids_G()])
        answers = [problem.answer for problem in chosen for _ in range(2)]
        means.append(np.mean([text == answer for text, answer in zip(texts, answers, strict=True)]))
    return float(np.mean(means))
