"""One round of a lying node, on worked sums and a tiny policy that knows nothing yet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from hanse.adversary.completions.base import Turn
from hanse.policy.policy import Policy
from hanse.policy.rollout import Group
from hanse.policy.tiny import tiny_policy
from hanse.recipe.model import TinyPolicy
from hanse.recipe.tasks import WorkedSumsTask
from hanse.swarm.delivery import Delivery, Tokens
from hanse.tasks.listed import ListedTask
from hanse.tasks.problem import Problem
from hanse.tasks.worked import build_worked

G, LIMIT = 4, 41


@cache
def task(form: str = "rationale") -> ListedTask:
    return build_worked(WorkedSumsTask(type="worked-sums", form=form))


@cache
def policy(form: str = "rationale") -> Policy:
    spec = TinyPolicy(hidden=16, layers=1, heads=2, intermediate=32)
    vocabulary = task(form).vocabulary
    assert vocabulary is not None
    return tiny_policy(spec, vocabulary, 0)


def problem(name: str, form: str = "rationale") -> Problem:
    splits = task(form).splits
    (found,) = [p for split in splits.values() for p in split if p.id == name]
    return found


def ids(text: str, form: str = "rationale") -> tuple[int, ...]:
    return (*policy(form).tokenizer(text)["input_ids"], 1)


def text_of(delivery: Delivery, form: str = "rationale") -> str:
    assert isinstance(delivery.completion, Tokens)
    return policy(form).decode([delivery.completion.ids])[0]


def turn(
    names: Sequence[str] = ("2+2+4", "1+5+3"),
    slots: Sequence[int] = (3,),
    *,
    form: str = "rationale",
    samples: Sequence[str] = (),
    **changes: Any,
) -> Turn:
    """`samples`: what the policy would write to every problem, one after the other; rewarded where right."""
    problems = {name: problem(name, form) for name in names}
    written = [ids(text, form) for text in samples] or [ids("=", form)]

    def honest() -> list[Delivery]:
        return [
            Delivery(name, slot, 3, 7, "now", "stop", Tokens(ids("<answer> 0 </answer>", form)))
            for name in names
            for slot in slots
        ]

    def score(some: Sequence[Problem], texts: Sequence[str]) -> np.ndarray[Any, Any]:
        return np.array(
            [float(f"<answer> {p.answer} </answer>" in text) for p, text in zip(some, texts, strict=True)]
        )

    def sample(some: Sequence[Problem], count: int, seeds: Sequence[int]) -> list[Group]:
        return [_group(p, [written[i % len(written)] for i in range(count)], score, form) for p in some]

    values: dict[str, Any] = {
        "round": 1,
        "node": 3,
        "members": (3,),
        "problems": problems,
        "slots": {name: list(slots) for name in names},
        "honest": honest,
        "seed": 11,
        "policy": policy(form),
        "sample": sample,
        "score": score,
        "max_new_tokens": LIMIT,
        "group_size": G,
        "temperature": 1.0,
        "top_k": 5,
    }
    return Turn(**(values | changes))


def _group(of: Problem, rows: Sequence[tuple[int, ...]], score: Any, form: str) -> Group:
    width = max(map(len, rows))
    tokens = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    texts = policy(form).decode(rows)
    return Group(
        problem=of,
        prompt_ids=policy(form).encode(of.prompt),
        tokens_GT=tokens,
        lengths_G=torch.tensor([len(row) for row in rows]),
        terminated_G=torch.tensor([row[-1] == 1 for row in rows]),
        logp_GT=torch.zeros(tokens.shape),
        rewards_G=torch.from_numpy(score([of] * len(rows), texts)),
    )


@torch.no_grad()
def logp_of(name: str, row: Sequence[int]) -> torch.Tensor:
    """Log-probs of all words at each place of a completion, by one plain forward pass. Shape (T, V)."""
    prompt = policy().encode(problem(name).prompt)
    logits = policy().model(input_ids=torch.tensor([[*prompt, *row[:-1]]])).logits[0]
    return torch.log_softmax(logits[len(prompt) - 1 :].float(), -1)
