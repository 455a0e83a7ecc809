"""Deliveries and views made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from hanse.policy.readings import Readings
from hanse.policy.sampler import Sampling
from hanse.swarm.assignment import Assignment
from hanse.swarm.defences.base import View
from hanse.swarm.delivery import Delivery, Text, Tokens
from hanse.tasks.problem import Problem

BEACON = "b0"
END = 1
LIMIT = 8


def owners(nodes: int = 2, problems: Sequence[str] = ("p",), each: int = 2) -> Assignment:
    """A horizontal assignment."""
    return Assignment(
        BEACON, {(p, n * each + i): n for p in problems for n in range(nodes) for i in range(each)}
    )


def sent(
    node: int,
    slot: int,
    ids: Sequence[int] = (5, 6, END),
    *,
    problem: str = "p",
    policy: str = "now",
    text: str | None = None,
    logp: Sequence[float] | None = None,
    **changes: Any,
) -> Delivery:
    """What an honest node sends, but for the changes."""
    claims = None if logp is None else np.array(logp, np.float32)
    said = Tokens(tuple(ids), claims) if text is None else Text(text)
    finish = "stop" if ids[-1] == END else "length"
    honest = {"seed": owners(problems=(problem,)).seed(problem), "finish": finish}
    return Delivery(problem, slot, node, policy=policy, completion=said, **(honest | changes))


def readings(N: int, T: int, **values: Any) -> Readings:
    """Readings of a sampler's own output, but for those given: (N, T), or what broadcasts to it."""
    honest = {
        "logp": -0.5,
        "kept": 0.0,
        "entropy": 0.5,
        "variance": 0.25,
        "margin": 1.0,
        "gap": -0.1,
        "replay": 0.0,
    }
    filled = {
        f"{name}_NT": torch.as_tensor(value, dtype=torch.float32).expand(N, T).clone()
        for name, value in (honest | values).items()
    }
    return Readings(**filled)


def view(
    deliveries: Sequence[Delivery],
    *,
    assignment: Assignment | None = None,
    ids: Sequence[Sequence[int]] | None = None,
    rewards: Sequence[float] | None = None,
    texts: Sequence[str] | None = None,
    problems: Mapping[str, str] | None = None,
    policies: Sequence[str] = ("now", "before", "long ago"),
    memory: Mapping[str, Any] | None = None,
    **values: Any,
) -> View:
    """A round's deliveries as they lie before the defences. `ids`: of texts; `values`: of the readings."""
    rows = [list(d.completion.ids) if isinstance(d.completion, Tokens) else [5, 6, END] for d in deliveries]
    rows = rows if ids is None else [list(row) for row in ids]
    T = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (T - len(row)) for row in rows])
    prompts = problems or {}
    return View(
        round=3,
        deliveries_N=list(deliveries),
        problems_N=[Problem(d.problem, prompts.get(d.problem, "2 + 3 + 4 =")) for d in deliveries],
        texts_N=list(texts or [""] * len(rows)),
        tokens_NT=tokens,
        lengths_N=torch.tensor([len(row) for row in rows]),
        terminated_N=torch.tensor([row[-1] == END for row in rows]),
        rewards_N=torch.tensor(rewards or [1.0] * len(rows), dtype=torch.float64),
        sampling=Sampling(LIMIT),
        assignment=assignment or owners(),
        policies=policies,
        read=lambda: readings(len(rows), T, **values),
        memory=memory or {},
        eos_ids=(END,),
    )


def verdicts(defence: Any, spec: Any, seen: View, accepted: Sequence[bool] | None = None) -> list[bool]:
    """Which are rejected."""
    N = seen.size
    given = torch.ones(N, dtype=torch.bool) if accepted is None else torch.tensor(accepted)
    found = defence(spec, seen, given)
    assert found.rejected_N.shape == found.score_N.shape == (N,)
    assert found.rejected_N.dtype == torch.bool and not found.score_N.isnan().any()
    rejected: list[bool] = found.rejected_N.tolist()
    return rejected
