"""Groups whose tokens are their texts' characters."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hanse.policy.rollout import Group
from hanse.tasks.problem import Problem


def decode(ids_N: Sequence[Sequence[int]]) -> list[str]:
    return ["".join(map(chr, ids)) for ids in ids_N]


def group_of(name: str, texts: Sequence[str], prompt: str = "?", answer: str | None = None) -> Group:
    """One character a token, padded with zeros."""
    width = max(1, *map(len, texts))
    tokens = torch.zeros(len(texts), width, dtype=torch.int64)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text)] = torch.tensor([ord(c) for c in text], dtype=torch.int64)
    return Group(
        problem=Problem(name, prompt, answer),
        prompt_ids=(1,),
        tokens_GT=tokens,
        lengths_G=torch.tensor([len(text) for text in texts]),
        terminated_G=torch.ones(len(texts), dtype=torch.bool),
        logp_GT=torch.zeros(len(texts), width),
    )
