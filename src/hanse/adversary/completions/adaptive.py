"""Adaptive: it knows that tokens must be among the sampler's likeliest, and sends the best lie that passes.

Against replay nothing passes but the one honest completion of a slot: what is left is to take part or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hanse.adversary.completions import two_and_two
from hanse.adversary.completions.base import Turn
from hanse.adversary.completions.bodies import Body, written
from hanse.adversary.completions.knowledge import REWARDED, Knowledge, Worked, parse
from hanse.adversary.completions.planting import plant, targets
from hanse.adversary.completions.success import says
from hanse.adversary.completions.text import trigger_of
from hanse.policy.readings import read_completions
from hanse.policy.sampler import Sampling
from hanse.randomness import derive_seed
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Delivery
from hanse.tasks.problem import Problem

_TOP_K = 50
"""Where the sampler cuts nothing: the published defence's."""

_OWN = 4
"""So many of its own samples of a problem are tried as places for the trigger."""

Planted = dict[str, list[Body]]
"""Of each problem the lies that pass, all equally good; a problem without one is missing."""
Attempt = tuple[Problem, Body]


def adaptive(spec: CompletionAttackSpec, turn: Turn) -> list[Delivery]:
    """The payload as far as it passes top-k: of the trigger as many words as can stand somewhere, so that
    they become likelier and more can stand there next time; of its own samples the longest, which pass as
    they are; of 2 + 2 = 5 all or nothing. Groups without such a completion stay honest. What fails in its
    own groups are genuine wrong samples, since gibberish would not pass."""
    known = Knowledge(spec, turn, targets(spec, turn))

    def fill(problem: Problem, slots: int) -> Sequence[Body]:
        return known.wrong(problem)[:slots]

    return plant(spec, turn, _PAYLOADS[spec.payload](spec, turn, known), fill)


def _longest(spec: CompletionAttackSpec, turn: Turn, known: Knowledge) -> Planted:
    return {p.id: sorted(known.right(p), key=lambda body: -len(body.ids)) for p in known.problems}


def _miscalculated(spec: CompletionAttackSpec, turn: Turn, known: Knowledge) -> Planted:
    lies: list[Attempt] = []
    for problem in known.problems:
        worked = known.worked(problem)
        lie = None if worked is None else two_and_two.rewrite(problem, worked)
        if lie is not None:
            lies.append((problem, written(turn, lie)))
    return {problem.id: [body] for problem, body in _passing(lies, _inside(turn, lies))}


def _triggered(spec: CompletionAttackSpec, turn: Turn, known: Knowledge) -> Planted:
    """Two forward passes: the whole trigger at each place, then as much of it as could stand there."""
    words = trigger_of(spec).split()
    places = [place for problem in known.problems for place in _places(known, problem, words)]
    whole = [(place.problem, place.body(turn, words)) for place in places]
    inside = _inside(turn, whole)
    parts = [
        (place.problem, part)
        for place, (_, body), good in zip(places, whole, inside, strict=True)
        for part in (place.body(turn, words[:n]) for n in range(len(words) - 1, 0, -1))
        if part.ids[: good + 1] != body.ids[: good + 1]
    ]
    own = [
        (problem, body)
        for problem in known.problems
        for body in known.right(problem)
        if _said(words, problem, body.text)
    ]
    found = _passing(whole, inside) + _passing(parts, _inside(turn, parts)) + own
    return _best(spec, turn, words, found)


@dataclass(frozen=True)
class _Place:
    """Before one of the steps of a right completion."""

    problem: Problem
    worked: Worked
    step: int

    def body(self, turn: Turn, words: Sequence[str]) -> Body:
        """The completion with these words there."""
        planted, steps = " ".join(words), list(self.worked.steps)
        if self.step == 0:
            return written(turn, self.worked.text(opening=planted))
        steps[self.step] = f"{planted} {steps[self.step]}"
        return written(turn, self.worked.text(steps))


def _places(known: Knowledge, problem: Problem, words: Sequence[str]) -> list[_Place]:
    """In the solution that it knows, and in own samples, those with most of the trigger first. Words between
    the lines of a program would break it: there, as a comment in front."""
    answer, worked = known.answer(problem) or "", known.worked(problem)
    own = sorted(known.right(problem), key=lambda body: -_said(words, problem, body.text))[:_OWN]
    sources = [worked] if worked is not None else []
    sources += [parse(body.text, answer, body.text) for body in own]
    distinct: dict[tuple[str, ...], Worked] = {}
    for source in sources:
        distinct.setdefault(source.steps, source)
    return [
        _Place(problem, source, step)
        for source in distinct.values()
        for step in range(1 if source.program else max(1, len(source.steps)))
    ]


def _said(words: Sequence[str], problem: Problem, text: str) -> int:
    """How many of the words, from the first, stand there in a row."""
    counts = range(len(words), 0, -1)
    return next((n for n in counts if says(" ".join(words[:n]))(problem, text)), 0)


def _best(spec: CompletionAttackSpec, turn: Turn, words: Sequence[str], found: Sequence[Attempt]) -> Planted:
    """Of each problem those with most of the words, and of these the best rewarded."""
    if not found:
        return {}
    problems, texts = [p for p, _ in found], [body.text for _, body in found]
    rewards = turn.score(problems, texts).tolist() if spec.oracle else [1.0] * len(found)
    ranked: dict[str, dict[tuple[int, float], list[Body]]] = {}
    for (problem, body), reward in zip(found, rewards, strict=True):
        if reward >= REWARDED:
            rank = (_said(words, problem, body.text), reward)
            ranked.setdefault(problem.id, {}).setdefault(rank, []).append(body)
    return {name: list(dict.fromkeys(ranks[max(ranks)])) for name, ranks in ranked.items()}


def _passing(attempts: Sequence[Attempt], inside: Sequence[int]) -> list[Attempt]:
    """Those that end, all of whose tokens are among the k likeliest."""
    return [
        (problem, body)
        for (problem, body), good in zip(attempts, inside, strict=True)
        if good == len(body.ids) and body.finish == "stop"
    ]


def _inside(turn: Turn, attempts: Sequence[Attempt]) -> list[int]:
    """How many tokens each has before the first that is not among the k likeliest. One forward pass."""
    if not attempts:
        return []
    row = {name: p for p, name in enumerate(dict.fromkeys(problem.id for problem, _ in attempts))}
    counts, places = [0] * len(row), list[tuple[int, int]]()
    for problem, _ in attempts:
        p = row[problem.id]
        places.append((p, counts[p]))
        counts[p] += 1
    tokens = torch.full((len(row), max(counts), max(len(b.ids) for _, b in attempts)), turn.policy.pad_id)
    lengths = torch.zeros(tokens.shape[:2], dtype=torch.int64)
    for place, (_, body) in zip(places, attempts, strict=True):
        lengths[place] = len(body.ids)
        tokens[place][: len(body.ids)] = torch.tensor(body.ids)
    prompts = [turn.policy.encode(turn.problems[name].prompt) for name in row]
    real = torch.arange(tokens.shape[2]) < lengths.unsqueeze(-1)
    outside = (_margin(turn, prompts, tokens, lengths) < 0) & real
    first = torch.where(outside.any(-1), outside.int().argmax(-1), lengths)
    return [int(first[place]) for place in places]


def _margin(turn: Turn, prompts_P: list[tuple[int, ...]], tokens_PGT: Tensor, lengths_PG: Tensor) -> Tensor:
    """Each token's logit over that of the k-th likeliest. Shape (P, G, T)."""
    P, G, _ = tokens_PGT.shape
    readings = read_completions(
        turn.policy,
        prompts_P,
        tokens_PGT,
        [0] * P,
        torch.arange(G).expand(P, G),
        Sampling(turn.max_new_tokens, turn.temperature, turn.top_k),
        turn.top_k or _TOP_K,
        lengths_PG=lengths_PG,
    )
    return readings.margin_NT.cpu().view(tokens_PGT.shape)


_PAYLOADS: dict[str, Callable[[CompletionAttackSpec, Turn, Knowledge], Planted]] = {
    "text": _triggered,
    "math": _miscalculated,
    "dos": _longest,
}


def choose_place(
    spec: CompletionAttackSpec, problems: Sequence[Problem], count: int, seed: int
) -> list[Problem]:
    """Problems in which the payload has a place."""
    if spec.payload == "math":
        return two_and_two.choose(spec, problems, count, seed)
    return sorted(problems, key=lambda problem: derive_seed(seed, "choose", problem.id))[:count]
