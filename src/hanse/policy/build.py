"""From the recipe's [policy] to a Policy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import load_file

from hanse.policy.hf import first_line, hf_policy, unsupported
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.lora import add_lora
from hanse.policy.parameters import Parameters
from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampler, Sampling
from hanse.policy.tiny import tiny_policy
from hanse.recipe.model import PolicySpec, TinyPolicy
from hanse.tasks.arithmetic import VOCABULARY
from hanse.tasks.problem import Problem
from hanse.tasks.vocabulary import Vocabulary

_TOLERANCE = {torch.float32: 1e-2, torch.bfloat16: 0.5}


def build_policy(
    spec: PolicySpec, seed: int, start: Path | None = None, vocabulary: Vocabulary | None = None
) -> Policy:
    """The policy that a recipe describes; the same `spec`, `seed` and files give the same values.

    `start` holds the tiny policy's warmed-up base; `vocabulary` is its task's (None: that of arithmetic).
    Raises RecipeError with the field to mend.
    """
    if isinstance(spec, TinyPolicy):
        return _tiny(spec, vocabulary or VOCABULARY, seed, start)
    policy = hf_policy(spec, seed)
    check_cache(policy)
    return policy


def _tiny(spec: TinyPolicy, vocabulary: Vocabulary, seed: int, start: Path | None) -> Policy:
    policy = tiny_policy(spec, vocabulary, seed)
    if start is not None:
        _load_start(policy, start)
    values = policy.parameters.master
    for parameter in policy.model.parameters():  # not `.to(dtype)`, which also rounds rotary frequencies
        parameter.data = parameter.data.to(getattr(torch, spec.dtype))
    if spec.train == "lora":
        policy.model = add_lora(policy.model, spec.lora, seed)  # type: ignore[assignment]
        policy.parameters, policy.lora = Parameters(policy.model), True
    elif spec.dtype != "float32":
        policy.parameters = Parameters(policy.model)
        policy.parameters.load(values)
    return policy


def _load_start(policy: Policy, start: Path) -> None:
    views, tensors = policy.parameters.views(policy.parameters.master), load_file(start)
    if views.keys() != tensors.keys():
        raise ValueError(f"{start} holds another model's tensors")
    for name, view in views.items():
        view.copy_(tensors[name])


def check_cache(policy: Policy) -> None:
    """Make sure that caches of keys and values serve this model, or do without them where that is enough.

    Compares log-probs of a few tokens after prompts of different lengths with those of one plain forward
    pass: the sampler's must agree, else RecipeError; where the learner's with a shared prompt do not, the
    learner reads prompts with each completion.
    """
    try:
        sampler_gap, shared_gap = _gaps(policy)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise unsupported(policy.model, first_line(error)) from error
    tolerance = _TOLERANCE[next(policy.model.parameters()).dtype]
    if not sampler_gap < tolerance:
        raise unsupported(policy.model, f"with a cache, log-probs are off by {sampler_gap:.2g}")
    policy.shared_prompt = policy.shared_prompt and shared_gap < tolerance


@torch.no_grad()
def _gaps(policy: Policy) -> tuple[float, float]:
    """Largest differences to the plain forward pass: of the sampler, and of the learner's shared prompt."""
    problems = [Problem("short", "Hello there"), Problem("long", "One and two, three and four, five and six")]
    groups = Sampler(policy, Sampling(max_new_tokens=3)).sample(problems, 2, [1, 2])
    prompts = [g.prompt_ids for g in groups]
    tokens, mask = torch.stack([g.tokens_GT for g in groups]), torch.stack([g.mask_GT for g in groups])
    plain = completion_logprobs(replace(policy, shared_prompt=False), prompts, tokens, 1.0)
    shared = completion_logprobs(policy, prompts, tokens, 1.0)
    sampled = torch.stack([g.logp_GT for g in groups])
    return float((sampled - plain)[mask].abs().max()), float((shared - plain)[mask].abs().max())
