"""The server's scorer where it has no truth of its own: the experts' mean score of each candidate.

Groups are of candidates. The published formula normalises over the experts of one candidate, whose
advantages then sum to zero with its gradient; the released code, like this, compares candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from hanse.federation.reward_only.experts import chosen, competence, embedded, nearest
from hanse.federation.reward_only.messages import (
    MAX_BYTES,
    Answers,
    Candidates,
    FloatArray,
    Judgement,
    Quiz,
)
from hanse.federation.wire.frame import WireError
from hanse.grpo.step import Scoring
from hanse.randomness import generator
from hanse.recipe.reward_only import RewardOnlySpec
from hanse.tasks.problem import Problem, Prompt
from hanse.tasks.scoring.scores import Scores

Reply = TypeVar("Reply")
Send = Callable[[Mapping[int, bytes]], Mapping[int, bytes]]


@dataclass
class JuryState:
    """`number`: exchanges so far; `right_KA`: who got which auxiliary problem right, NaN where not answered,
    None before the quiz; `ledger`: what was refused, by client and reason."""

    number: int = 0
    right_KA: Tensor | None = None
    ledger: Counter[str] = field(default_factory=Counter)
    bytes_up: int = 0
    bytes_down: int = 0


class Jury:
    """Scores completions by asking clients. A reply that is missing or refused leaves the others' mean; a
    candidate that nobody scored is unscored. No reply ends a run."""

    def __init__(
        self,
        spec: RewardOnlySpec,
        clients: int,
        auxiliary: Sequence[Problem],
        send: Send,
        seed: int,
        state: JuryState | None = None,
    ) -> None:
        self.spec, self.clients, self.auxiliary, self.seed = spec, clients, auxiliary, seed
        self.state, self._send = state or JuryState(), send
        self.refused: list[tuple[int, str]] = []
        self.given: dict[int, list[FloatArray]] = {}

    def examine(self, scorer: Scoring) -> None:
        """Ask every client all auxiliary problems, once in a run, where that decides who is asked later;
        `scorer` has their truth. Reward models are asked which of two answers is better."""
        if self.state.right_KA is None and self.spec.choice == "competence":
            self.state.right_KA = self._examined(scorer) if self.spec.models is None else self._compared()

    def _examined(self, scorer: Scoring) -> Tensor:
        """Who answers which auxiliary problem rightly. Shape (K, A)."""
        quiz = Quiz(self._next(), tuple(p.prompt for p in self.auxiliary))
        replies = self._exchange(dict.fromkeys(range(self.clients), quiz.to_bytes()))
        right = torch.full((self.clients, len(self.auxiliary)), torch.nan, dtype=torch.float64)
        for client, data in replies.items():
            answers = self._read(client, partial(Answers.from_bytes, data, quiz, client))
            if answers is not None:
                marks = scorer.score(self.auxiliary, answers.texts, None, group_size=1).totals_N
                right[client] = torch.from_numpy((np.nan_to_num(marks) >= self.spec.high).astype(float))
        return right

    def _compared(self) -> Tensor:
        """Who gives which auxiliary problem's answer a higher score than the answer of another one, the order
        of the two being drawn. 0 for all where there is no other. Shape (K, A)."""
        pairs = answer_pairs(self.auxiliary)
        right = torch.full((self.clients, len(self.auxiliary)), torch.nan, dtype=torch.float64)
        if not pairs:
            return right.zero_()
        swapped = generator(self.seed, "examination").random(len(pairs)) < 0.5
        prompts = tuple(self.auxiliary[place].prompt for place in pairs)
        texts = [pair[::-1] if swap else pair for pair, swap in zip(pairs.values(), swapped, strict=True)]
        asked = Candidates(self._next(), prompts, tuple(texts))
        replies = self._exchange(dict.fromkeys(range(self.clients), asked.to_bytes()))
        for client, data in replies.items():
            read = self._judgement(client, data, asked)
            if read is not None:
                first, second = read.scores_N.reshape(-1, 2).T
                better = np.where(swapped, second > first, first > second)
                right[client] = 0.0
                right[client, list(pairs)] = torch.from_numpy(better.astype(float))
        return right

    def score(
        self,
        problems_N: Sequence[Problem],
        completions_N: Sequence[str],
        completion_ids_N: Sequence[list[int]] | None = None,
        *,
        group_size: int | None = None,
    ) -> Scores:
        """As `Scoring`: groups of `group_size` neighbours are of one question."""
        G = group_size or 1
        prompts = [problem.prompt for problem in problems_N[::G]]
        texts = [tuple(completions_N[i : i + G]) for i in range(0, len(completions_N), G)]
        number = self._next()
        questions = self._questions(prompts)
        asked = {
            k: Candidates(number, tuple(prompts[p] for p in own), tuple(texts[p] for p in own))
            for k, own in questions.items()
        }
        replies = self._exchange({k: message.to_bytes() for k, message in asked.items()})
        rows = np.full((self.clients, len(prompts), G), np.nan)
        for k, data in replies.items():
            read = self._judgement(k, data, asked[k])
            if read is not None:
                rows[k, questions[k]] = read.scores_N.reshape(-1, G)
                self.given.setdefault(k, []).append(read.scores_N)
        return _scores(mean_scores(rows).reshape(-1))

    def _questions(self, prompts: Sequence[Prompt]) -> dict[int, list[int]]:
        """Which questions each client is asked; clients in id order."""
        experts = chosen(self._competence(prompts), self.spec.experts, self.seed, prompts)
        by_client: dict[int, list[int]] = {}
        for p, row in enumerate(experts.tolist()):
            for client in row:
                by_client.setdefault(client, []).append(p)
        return dict(sorted(by_client.items()))

    def _competence(self, prompts: Sequence[Prompt]) -> Tensor:
        """Of each client for each question, the same for all where that is not asked. Shape (P, K)."""
        spec = self.spec
        if spec.choice == "random":
            return torch.zeros(len(prompts), self.clients, dtype=torch.float64)
        assert self.state.right_KA is not None
        near = nearest(self._embedded(prompts), self._known, spec.nearest)
        return competence(self.state.right_KA, near)

    def _embedded(self, prompts: Sequence[Prompt]) -> Tensor:
        return embedded(prompts, self.spec.ngram, self.spec.width)

    @cached_property
    def _known(self) -> Tensor:
        return self._embedded([problem.prompt for problem in self.auxiliary])

    def _next(self) -> int:
        self.state.number += 1
        return self.state.number

    def _exchange(self, messages: dict[int, bytes]) -> dict[int, bytes]:
        for client in [k for k, data in messages.items() if len(data) > MAX_BYTES]:
            size = len(messages.pop(client))
            self._refuse(client, f"what it is asked has {size:,} bytes, more than {MAX_BYTES:,}")
        self.state.bytes_down += sum(map(len, messages.values()))
        replies = {k: data for k, data in sorted(self._send(messages).items()) if k in messages}
        self.state.bytes_up += sum(map(len, replies.values()))
        for client in sorted(messages.keys() - replies.keys()):
            self._refuse(client, "no reply")
        return replies

    def _judgement(self, client: int, data: bytes, asked: Candidates) -> Judgement | None:
        low, high = self.spec.low, self.spec.high
        return self._read(client, partial(Judgement.from_bytes, data, asked, client, low, high))

    def _read(self, client: int, reading: Callable[[], Reply]) -> Reply | None:
        try:
            return reading()
        except WireError as error:
            self._refuse(client, str(error))
            return None

    def _refuse(self, client: int, reason: str) -> None:
        self.state.ledger[f"client {client}: {reason}"] += 1
        self.refused.append((client, reason))

    def take_refused(self) -> list[tuple[int, str]]:
        """Refusals since the last call, with their reasons."""
        taken, self.refused = self.refused, []
        return taken

    def take_given(self) -> dict[int, FloatArray]:
        """Each client's scores since the last call, NaN where it had none to give."""
        taken, self.given = self.given, {}
        return {client: np.concatenate(scores) for client, scores in sorted(taken.items())}


def answer_pairs(auxiliary: Sequence[Problem]) -> dict[int, tuple[str, str]]:
    """Each problem's answer beside that of the next one with another answer, by its place; those without an
    answer are left out."""
    known = [(place, one.answer) for place, one in enumerate(auxiliary) if one.answer]
    found: dict[int, tuple[str, str]] = {}
    for i, (place, answer) in enumerate(known):
        others = [other for _, other in known[i + 1 :] + known[:i] if other != answer]
        if others:
            found[place] = (answer, others[0])
    return found


def mean_scores(scores_KPG: FloatArray) -> FloatArray:
    """The mean over the experts that scored a question's candidates, all of the same experts: one that left
    any of a group unscored would shift its mates. NaN where none is left. Shape (P, G)."""
    whole = ~np.isnan(scores_KPG).any(-1, keepdims=True)
    total = np.where(whole, np.nan_to_num(scores_KPG), 0.0).sum(0)
    count = whole.sum(0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _scores(totals_N: FloatArray) -> Scores:
    missing = int(np.isnan(totals_N).sum())
    failures = Counter({"no expert": missing}) if missing else Counter[str]()
    return Scores(("jury",), totals_N, totals_N[None].copy(), failures, weights_F=(1.0,))
