"""What a client's update tells of its prompts.

    OMP_NUM_THREADS=1 python benchmarks/leakage.py [--repeats 3] [--out DIR]

A small Llama with a vocabulary of 2,000 words, whose tables of tokens are apart or one; prompts of 12 random
words. A client does S local steps on B prompts each (G completions of T tokens, rewards by chance) and
sends what changed. Two questions, put by somebody who knows the base and the update:

- rows: which words does the change of the embedding table point at? Words are ranked by the length of their
  row's change.
- span: a matrix that reads embeddings changes by sums of outer products with them, so the embeddings of words
  that were read lie in the span of its rows (DAGER, 2405.15586). Words are ranked by their distance from the
  span of the first layer's query projection.

Each is told as the area under the ROC curve (AUC) of "occurs in the client's prompts" against words that it
neither read nor wrote: .5 is chance, 1 is all known, and so is 0. "gradient" is the sum of raw gradients: no
client of Hanse sends it, and beside it one sees what the optimiser hides.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from hanse.grpo.learner import Learner
from hanse.grpo.step import assign_advantages
from hanse.policy.hf import freeze_tables
from hanse.policy.lora import add_lora
from hanse.policy.parameters import Parameters
from hanse.policy.policy import Policy
from hanse.policy.rollout import Group
from hanse.policy.sampler import Sampler, Sampling
from hanse.policy.tiny import tiny_tokenizer
from hanse.randomness import generator
from hanse.recipe.model import GrpoSpec, LoraSpec
from hanse.tasks.problem import Problem
from hanse.tasks.vocabulary import Vocabulary

WORDS, PROMPT, HIDDEN = 2000, 12, 64


@dataclass(frozen=True)
class Case:
    """`train`: "full", "full, tables rest" or "lora"; `tied`: one table for reading and writing."""

    train: str
    tied: bool
    steps: int
    prompts: int
    group: int = 8
    tokens: int = 12

    @property
    def name(self) -> str:
        tables = "one table" if self.tied else "two tables"
        sizes = f"S = {self.steps}, B = {self.prompts}, G = {self.group}, T = {self.tokens}"
        return f"{self.train}, {tables}, {sizes}"


def build(case: Case, seed: int) -> Policy:
    """An untrained policy: what a span tells does not depend on what was learnt before."""
    tokenizer = tiny_tokenizer(Vocabulary(tuple(f"w{i}" for i in range(WORDS)), "words"))
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=64,
        tie_word_embeddings=case.tied,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    torch.manual_seed(seed)
    model: Any = LlamaForCausalLM(config).eval()
    if case.train == "full, tables rest":
        freeze_tables(model)
    if case.train == "lora":
        model = add_lora(model, LoraSpec(rank=8, alpha=16), seed)
    return Policy(model, tokenizer, Parameters(model), (1,), 0, 64, lora=case.train == "lora")


def draw(policy: Policy, case: Case, step: int, seed: int) -> list[Group]:
    """Groups of which half is rewarded, whichever."""
    draws = generator(seed, "leakage", step)
    prompts = [" ".join(f"w{i}" for i in draws.integers(WORDS, size=PROMPT)) for _ in range(case.prompts)]
    problems = [Problem(id=f"{step}-{i}", prompt=prompt) for i, prompt in enumerate(prompts)]
    groups = Sampler(policy, Sampling(case.tokens)).sample(
        problems, case.group, [*range(1, case.prompts + 1)]
    )
    for group in groups:
        group.rewards_G = torch.from_numpy(draws.permutation(case.group) % 2).double()
    return groups


def client_round(policy: Policy, case: Case, seed: int) -> tuple[Tensor, Tensor, set[int], set[int]]:
    """What is sent (new values minus base), the sum of raw gradients, tokens of prompts, of completions."""
    spec = GrpoSpec(group_size=case.group, prompts_per_step=case.prompts, max_new_tokens=case.tokens, lr=1e-3)
    learner, base = Learner(policy, spec, case.steps), policy.parameters.master.clone()
    gradient, read, written = torch.zeros_like(base), set[int](), set[int]()
    update = learner._optimiser.update

    def noted(grad: Tensor, lr: float) -> None:
        gradient.add_(grad)
        update(grad, lr)

    learner._optimiser.update = noted  # type: ignore[method-assign]
    for step in range(case.steps):
        groups = draw(policy, case, step, seed)
        assign_advantages(groups, spec)
        learner.step(groups)
        read |= {token for group in groups for token in group.prompt_ids}
        written |= {token for group in groups for ids in group.token_ids_G() for token in ids}
    return policy.parameters.master - base, gradient, read, written


def auc(scores: Tensor, kinds: Tensor) -> float:
    """The chance that one of kind 1 has a higher score than one of kind 0; ties count half."""
    wins, ones, others = 0.0, scores[kinds == 1].double(), scores[kinds == 0].double()
    for part in ones.split(64):
        wins += float((part[:, None] > others).sum() + 0.5 * (part[:, None] == others).sum())
    return wins / (len(ones) * len(others))


def rows(policy: Policy, change: Tensor, kinds: Tensor) -> float | None:
    named = policy.parameters.views(change)
    found = [tensor for name, tensor in named.items() if "embed_tokens" in name]
    return auc(found[0].norm(dim=1), kinds) if found else None


def span(policy: Policy, change: Tensor, kinds: Tensor) -> float:
    """Of the first layer's query projection, or its A: both read what the first norm makes of embeddings."""
    named = policy.parameters.views(change)
    matrix = next(t for n, t in named.items() if "layers.0.self_attn.q_proj" in n and "lora_B" not in n)
    table = policy.model.get_input_embeddings().weight.detach().double()
    read = table / table.square().mean(1, keepdim=True).sqrt()
    _, values, basis = torch.linalg.svd(matrix.double(), full_matrices=False)
    basis = basis[values > 1e-6 * values[0]] if float(values[0]) > 0 else basis[:0]
    if len(basis) == HIDDEN:  # all directions occur: the strongest half is what is left to ask
        basis = basis[: HIDDEN // 2]
    missed = (read - read @ basis.T @ basis).norm(dim=1) / read.norm(dim=1)
    return auc(-missed, kinds)


def measure(case: Case, seeds: Sequence[int]) -> dict[str, Any]:
    found: dict[str, list[float]] = {}
    for seed in seeds:
        policy = build(case, seed)
        base = policy.parameters.master.clone()
        sent, gradient, read, written = client_round(policy, case, seed)
        policy.parameters.load(base)
        kinds = torch.zeros(policy.vocabulary)
        kinds[sorted(written)] = -1
        kinds[sorted(read)] = 1
        for kind, change in (("update", sent), ("gradient", gradient)):
            told = {"rows": rows(policy, change, kinds), "span": span(policy, change, kinds)}
            for question, value in told.items():
                if value is not None:
                    found.setdefault(f"{question}_{kind}", []).append(value)
    return {"name": case.name, **vars(case), **{key: mean(values) for key, values in found.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    ways = (("full", False), ("full", True), ("full, tables rest", False), ("lora", False))
    cases = []
    print(f"{'':60s} {'rows':>15s} {'span':>15s}\n{'':60s} update gradient update gradient")
    for train, tied in ways:
        for sizes in ((1, 1, 2, 4), (1, 1), (1, 4), (1, 32), (5, 1), (5, 4), (5, 32)):
            case = measure(Case(train, tied, *sizes), range(arguments.repeats))
            cases.append(case)
            keys = ("rows_update", "rows_gradient", "span_update", "span_gradient")
            told = "  ".join(f"{case[key]:5.2f}" if key in case else "    –" for key in keys)
            print(f"{case['name']:60s} {told}")
    from hanse.runs.environment import environment

    arguments.out.mkdir(parents=True, exist_ok=True)
    record = {"name": "leakage", "repeats": arguments.repeats, "cases": cases, "machine": environment()}
    (arguments.out / "leakage.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
