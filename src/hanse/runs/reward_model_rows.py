"""Rows of metrics.jsonl of mode "reward-model"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
from torch import Tensor

from hanse.federation.client import Rows
from hanse.federation.records import RoundRecord
from hanse.grpo.step import mean_metrics
from hanse.reward_model.bradley_terry import accuracy
from hanse.reward_model.groups import Labels, adjusted_rand
from hanse.reward_model.tracker import Tracker
from hanse.runs.rows import Row, step_rows


@dataclass(frozen=True)
class Standing:
    """How the shared model stands to the clients, before any local step.

    `accuracy_before`, `worst_before`: mean over groups of the mean over clients, and the worst group;
    `margin`: mean margin of each group; `distance`: mean over groups of its size, `farthest`: the largest;
    `groups_found`, `separation`, `rand_index`: what updates tell of the groups, and how well that fits.
    """

    accuracy_before: float | None
    worst_before: float | None
    margin: dict[str, float]
    distance: float | None
    farthest: float | None
    groups_found: int
    separation: float
    rand_index: float | None

    @classmethod
    def of(cls, margins: Mapping[int, Tensor], labels_K: Labels, tracker: Tracker) -> Standing:
        """Of clients' margins."""
        groups: dict[int, list[int]] = {}
        for client in margins:
            groups.setdefault(int(labels_K[client]), []).append(client)
        right = [fmean(accuracy(margins[k]) for k in members) for _, members in sorted(groups.items())]
        middle = {
            str(g): fmean(float(margins[k].double().mean()) for k in members)
            for g, members in sorted(groups.items())
        }
        far = [abs(value) for value in middle.values()]
        found, seen = tracker.found(), np.array(sorted(tracker.signatures), dtype=np.int64)
        rand = adjusted_rand(found.labels_K[seen], labels_K[seen]) if tracker.most > 1 and len(seen) else None
        return cls(
            fmean(right) if right else None,
            min(right, default=None),
            middle,
            fmean(far) if far else None,
            max(far, default=None),
            found.count,
            found.separation,
            rand,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def standing_row(standing: Standing) -> Row:
    """Columns `reward_model/*`."""
    row = {f"reward_model/{k}": v for k, v in standing.to_json().items() if k != "margin" and v is not None}
    return row | {f"reward_model/margin/{group}": value for group, value in standing.margin.items()}


def round_rows(
    number: int, answers: Mapping[int, Rows], records: Sequence[RoundRecord], names: Sequence[str]
) -> tuple[list[Row], Row]:
    """A row a client and local step, and the round's: means over both, and each client's weight."""
    row: Row = {"kind": "round", "round": number}
    row |= mean_metrics([metrics for steps in answers.values() for metrics in steps])
    for i, record in enumerate(records):
        for screened in record.screened:
            prefix = f"clients/{names[screened.client]}"
            if screened.upload is None:
                row[f"{prefix}/refused"] = screened.reason
                continue
            row[f"{prefix}/reward"] = screened.upload.signal.reward_mean
            row[f"{prefix}/weight"] = record.weights.get(screened.client, 0.0)
            row[f"{prefix}/update_norm"] = screened.norm
            if len(records) > 1:
                row[f"{prefix}/model"] = i
    return step_rows(number, answers, names), row
