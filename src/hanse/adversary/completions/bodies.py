"""What a delivery carries: from text or from samples to tokens, with true claims of their log-probs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.utils.rnn import pad_sequence

from hanse.adversary.completions.base import Turn
from hanse.policy.logprobs import completion_logprobs
from hanse.policy.policy import Policy
from hanse.policy.rollout import Group
from hanse.swarm.delivery import Delivery, Finish, Text, Tokens
from hanse.tasks.problem import Problem

NONSENSE = "nom"
"""What the authors' code fills groups with."""


@dataclass(frozen=True)
class Body:
    """A completion, end token included where it ends by itself."""

    text: str
    ids: tuple[int, ...]
    finish: Finish


def tokens_of(policy: Policy, text: str) -> tuple[int, ...]:
    """Ids of a piece of a completion."""
    ids: list[int] = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
    return tuple(ids)


def can_write(policy: Policy, text: str) -> bool:
    """Whether the tokenizer has all of the words."""
    unknown = {policy.pad_id, policy.tokenizer.unk_token_id}
    ids = tokens_of(policy, text)
    return bool(ids) and not unknown & set(ids)


def written(turn: Turn, text: str) -> Body:
    """A text as a completion; without an end where it is too long."""
    ids = (*tokens_of(turn.policy, text), turn.policy.eos_ids[0])
    fits = len(ids) <= turn.max_new_tokens
    return Body(text, ids[: turn.max_new_tokens], "stop" if fits else "length")


def sampled(policy: Policy, group: Group) -> list[Body]:
    """A group's completions, token by token as they were drawn."""
    texts = policy.decode(group.token_ids_G())
    return [Body(text, rollout.token_ids, rollout.finish) for text, rollout in zip(texts, group, strict=True)]


def gibberish(turn: Turn, problem: Problem, repeats: int = 2) -> Body:
    """Short, and worth nothing. Without the word: the prompt's last token."""
    text = " ".join([NONSENSE] * repeats)
    if can_write(turn.policy, text):
        return written(turn, text)
    ids = turn.policy.encode(problem.prompt)[-1:] * min(repeats, turn.max_new_tokens - 1)
    return Body(turn.policy.decode([ids])[0], (*ids, turn.policy.eos_ids[0]), "stop")


def carry(delivery: Delivery, body: Body) -> Delivery:
    """An honest delivery with another completion."""
    as_text = isinstance(delivery.completion, Text)
    completion = Text(body.text) if as_text else Tokens(body.ids)
    return replace(delivery, completion=completion, finish=body.finish)


@torch.no_grad()
def claimed(turn: Turn, problem: Problem, deliveries: Sequence[Delivery]) -> list[Delivery]:
    """Deliveries of one problem with the log-probs that their tokens really have: a lie would be found."""
    ids = [d.completion.ids for d in deliveries if isinstance(d.completion, Tokens)]
    if len(ids) < len(deliveries) or not ids:
        return list(deliveries)
    rows = [torch.tensor(row, device=turn.policy.device) for row in ids]
    tokens = pad_sequence(rows, batch_first=True, padding_value=turn.policy.pad_id)
    prompt = turn.policy.encode(problem.prompt)
    logp = completion_logprobs(turn.policy, [prompt], tokens.unsqueeze(0), turn.temperature)[0]
    values = logp.float().cpu().numpy()
    return [
        replace(d, completion=Tokens(row, values[i, : len(row)].copy()))
        for i, (d, row) in enumerate(zip(deliveries, ids, strict=True))
    ]
