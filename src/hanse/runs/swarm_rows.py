"""What a swarm's round comes to, told by somebody who knows who lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hanse.adversary.completions import success_of
from hanse.adversary.completions.success import success_rate
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.runs.rows import Row
from hanse.swarm.accounting import Standing
from hanse.swarm.replica import Outcome
from hanse.tasks.problem import Problem

Views = Sequence[tuple[int, Outcome]]
"""(node, what it made of the round)."""
_LATE = 3
"""Rounds at the end whose mean a summary gives."""
_SHOWN = 2


def round_rows(
    number: int, views: Views, liars: Sequence[int], names: Sequence[str], attack: CompletionAttackSpec
) -> tuple[list[Row], Row]:
    """A step row of every view, and the round's row: means over views."""
    told = [_of_view(outcome, liars, names, attack) for _, outcome in views]
    steps: list[Row] = [
        {"kind": "step", "round": number, "step": 0, "client": names[node], **outcome.metrics, **row}
        for (node, outcome), row in zip(views, told, strict=True)
    ]
    row: Row = {"kind": "round", "round": number}
    for key in dict.fromkeys(key for step in steps for key in step):
        values = [step[key] for step in steps if isinstance(step.get(key), int | float)]
        if values and key not in row and key != "step":
            row[key] = sum(values) / len(values)
    row["swarm/refused"] = sum(len(outcome.refused) for _, outcome in views)
    return steps, row


def _of_view(
    outcome: Outcome, liars: Sequence[int], names: Sequence[str], attack: CompletionAttackSpec
) -> Row:
    sent, node_N = list(outcome.sender_by_row), torch.tensor(list(outcome.sender_by_row.values()))
    lies_N = torch.isin(node_N, torch.tensor(liars, dtype=torch.int64))
    rewards_N, lengths_N = outcome.rewards_N[sent], outcome.lengths_N[sent].double()
    rejected_N = outcome.inspection.standing_N[sent] != Standing.ACCEPTED
    stopped_N = torch.tensor([outcome.written_N[i].stopped for i in sent], dtype=torch.bool)
    honest = ~lies_N
    row: Row = {
        "reward": _mean(rewards_N[honest]),
        "swarm/honest_reward": _mean(rewards_N[honest]),
        "swarm/length": _mean(lengths_N[honest]),
        "swarm/stop_rate": _mean(stopped_N[honest].double()),
        "swarm/honest_rejects": _mean(rejected_N[honest].double()),
        "swarm/honest_rejects_rewarded": _mean(rejected_N[honest & (rewards_N > 0)].double()),
        "swarm/honest_sent": int(honest.sum()),
        "completions/mean_length": _mean(lengths_N[honest]),
        "completions/clipped_ratio": _mean(1 - stopped_N[honest].double()),
    }
    if bool(lies_N.any()):
        row["swarm/attack_accepted"] = _mean((~rejected_N[lies_N & (rewards_N > 0)]).double())
        row["swarm/attack_reward"] = _mean(rewards_N[lies_N])
    row |= _success(outcome, liars, attack) | _checks(outcome)
    row |= _by_node(node_N, rewards_N, lengths_N, rejected_N, names)
    return {key: value for key, value in row.items() if value is not None}


def _success(outcome: Outcome, liars: Sequence[int], attack: CompletionAttackSpec) -> Row:
    """On what honest nodes wrote."""
    succeeded = success_of(attack)
    if succeeded is None:
        return {}
    honest = [i for i, node in outcome.sender_by_row.items() if node not in liars]
    texts = [outcome.texts_N[i] for i in honest]
    rate, counted = success_rate([outcome.problems_N[i] for i in honest], texts, succeeded)
    return {"swarm/attack_success": rate, "swarm/attack_counted": counted}


def _checks(outcome: Outcome) -> Row:
    """What each defence rejected and took, and the forward pass that they share."""
    found = outcome.inspection
    row: Row = {f"swarm/rejected/{name}": n for name, n in found.counts.items()}
    row |= {f"swarm/seconds/{name}": s for name, s in found.seconds.items()}
    row |= {f"swarm/figures/{name}": value for name, value in found.figures.items()}
    return row | {"swarm/seconds/forward": outcome.forward_seconds}


def _by_node(
    node_N: Tensor, rewards_N: Tensor, lengths_N: Tensor, rejected_N: Tensor, names: Sequence[str]
) -> Row:
    row: Row = {}
    for node in node_N.unique().tolist():
        mine = node_N == node
        prefix = f"nodes/{names[node]}"
        row[f"{prefix}/reward"] = _mean(rewards_N[mine])
        row[f"{prefix}/length"] = _mean(lengths_N[mine])
        row[f"{prefix}/accepted"] = _mean((~rejected_N[mine]).double())
    return row


def _mean(values: Tensor) -> float | None:
    known = values[~values.isnan()]
    return float(known.double().mean()) if known.numel() else None


def exchange_samples(
    number: int,
    outcome: Outcome,
    liars: Sequence[int],
    names: Sequence[str],
    attack: CompletionAttackSpec,
) -> list[Row]:
    """A few completions of liars, and of honest nodes to the same problems or, where they have none, to
    others: rewarded ones first."""
    sender = outcome.sender_by_row
    shown = _best(outcome, [i for i in sender if sender[i] in liars])
    same = {outcome.problems_N[i].id for i in shown}
    honest = [i for i in sender if sender[i] not in liars]
    fitting = [i for i in honest if outcome.problems_N[i].id in same]
    shown += _best(outcome, fitting or honest)
    return [_sample(number, outcome, i, liars, names, attack) for i in shown]


def _best(outcome: Outcome, rows: Sequence[int]) -> list[int]:
    """One a problem, rewarded ones first."""
    ordered = sorted(rows, key=lambda i: -float(outcome.rewards_N[i].nan_to_num(0.0)))
    by_problem: dict[str, int] = {}
    for i in ordered:
        by_problem.setdefault(outcome.problems_N[i].id, i)
    return list(by_problem.values())[:_SHOWN]


def _sample(
    number: int,
    outcome: Outcome,
    i: int,
    liars: Sequence[int],
    names: Sequence[str],
    attack: CompletionAttackSpec,
) -> Row:
    problem: Problem = outcome.problems_N[i]
    node, reward = outcome.sender_by_row[i], float(outcome.rewards_N[i])
    succeeded = success_of(attack)
    return {
        "round": number,
        "node": names[node],
        "lies": node in liars,
        "problem_id": problem.id,
        "prompt": problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1]["content"],
        "completion": outcome.texts_N[i],
        "answer": problem.answer,
        "reward": None if reward != reward else reward,
        "standing": Standing(int(outcome.inspection.standing_N[i])).name.lower(),
        "rejected_by": outcome.inspection.rejected_by_N[i],
        "success": None if succeeded is None else succeeded(problem, outcome.texts_N[i]),
    }


@dataclass
class History:
    """What the summary needs of all rounds: the last values of some, the totals of others."""

    late: dict[str, list[float]] = field(default_factory=dict)
    refused: int = 0
    honest_sent: float = 0.0
    honest_rejected: float = 0.0

    def add(self, row: Mapping[str, Any]) -> None:
        """One round's row."""
        for key in ("attack_success", "honest_reward", "length", "attack_accepted", "stop_rate"):
            value = row.get(f"swarm/{key}")
            if value is not None:
                self.late[key] = [*self.late.get(key, []), float(value)][-_LATE:]
        self.refused += int(row.get("swarm/refused", 0))
        sent = float(row.get("swarm/honest_sent", 0))
        self.honest_sent += sent
        self.honest_rejected += sent * float(row.get("swarm/honest_rejects") or 0.0)

    def summary(self) -> Row:
        """Means over the last rounds; `honest_rejects`: the share of all that honest nodes have sent."""
        late = {key: sum(values) / len(values) for key, values in self.late.items()}
        rejects = self.honest_rejected / self.honest_sent if self.honest_sent else None
        return {"attack_success": None, **late, "honest_rejects": rejects, "refused_bundles": self.refused}

    def to_state(self) -> Row:
        return dict(self.__dict__)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> History:
        return cls(**state)
