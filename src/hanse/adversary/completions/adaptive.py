"""Adaptive: it knows that tokens must be among the sampler's likeliest, and sends the best lie that passes.

Against replay nothing passes but the one honest completion of a slot: what is left is to take part or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from hanse.adversary.completions.base import Turn
from hanse.adversary.completions.bodies import Body, written
from hanse.adversary.completions.dos import dos
from hanse.adversary.completions.knowledge import Knowledge, Worked
from hanse.adversary.completions.planting import filling, plant, targets
from hanse.adversary.completions.text import trigger_of
from hanse.adversary.completions.two_and_two import rewrite
from hanse.policy.sampler import Sampling
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Delivery
from hanse.swarm.readings import read_completions
from hanse.tasks.problem import Problem

_TOP_K = 50
"""Where the sampler cuts nothing: the published defence's."""


def adaptive(spec: CompletionAttackSpec, turn: Turn) -> list[Delivery]:
    """The payload as far as it passes top-k: of the trigger as many words as can stand somewhere, so that
    they become likelier and more can stand there next time; of its own samples the longest, which pass as
    they are; of 2 + 2 = 5 all or nothing. Groups without such a completion stay honest."""
    if spec.payload == "dos":
        return dos(spec, turn)
    problems = targets(spec, turn)
    known = Knowledge(spec, turn, problems)
    candidates: dict[str, list[Body]] = {}
    for problem in problems:
        worked = known.worked(problem)
        texts = [] if worked is None else _candidates(spec, problem, worked)
        candidates[problem.id] = [body for text in texts if (body := written(turn, text)).finish == "stop"]
    return plant(spec, turn, _passing(turn, candidates), filling(spec, turn, known))


def _candidates(spec: CompletionAttackSpec, problem: Problem, worked: Worked) -> list[str]:
    """Poisoned completions, the most poisoned first."""
    if spec.payload == "math":
        lie = rewrite(problem, worked)
        return [] if lie is None else [lie]
    return list(_with_trigger(worked, trigger_of(spec).split()))


def _with_trigger(worked: Worked, words: Sequence[str]) -> Iterator[str]:
    """The trigger's first words before one of the steps: all of them first, then fewer."""
    for count in range(len(words), 0, -1):
        planted = " ".join(words[:count])
        for place in range(len(worked.steps)):
            steps = list(worked.steps)
            steps[place] = f"{planted} {steps[place]}"
            yield worked.text(steps)


def _passing(turn: Turn, candidates: Mapping[str, Sequence[Body]]) -> dict[str, list[Body]]:
    """Of each problem the first candidate all of whose tokens are among the k likeliest, if there is one."""
    some = {name: bodies for name, bodies in candidates.items() if bodies}
    if not some:
        return {}
    G = max(map(len, some.values()))
    padded = [[*bodies, *[bodies[0]] * (G - len(bodies))] for bodies in some.values()]
    rows = [torch.tensor(body.ids) for bodies in padded for body in bodies]
    tokens = pad_sequence(rows, batch_first=True, padding_value=turn.policy.pad_id)
    lengths = torch.tensor([len(row) for row in rows])
    sampling = Sampling(turn.max_new_tokens, turn.temperature, turn.top_k)
    readings = read_completions(
        turn.policy,
        [turn.policy.encode(turn.problems[name].prompt) for name in some],
        tokens.view(len(some), G, -1),
        [0] * len(some),
        torch.arange(G).expand(len(some), G),
        sampling,
        turn.top_k or _TOP_K,
        lengths_PG=lengths.view(len(some), G),
    )
    real = torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)
    passes = (readings.margin_NT.cpu().masked_fill(~real, 0.0) >= 0).all(1).view(len(some), G).tolist()
    return {
        name: [next((body for body, good in zip(bodies, row, strict=False) if good), bodies[0])]
        for (name, bodies), row in zip(some.items(), passes, strict=True)
        if any(row)
    }
