"""Rows of metrics.jsonl from what a round returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hanse.federation.server import RoundRecord
from hanse.grpo.step import ERRORS, mean_metrics
from hanse.runtime.base import Answer

Row = dict[str, Any]


def step_rows(number: int, answers: Mapping[int, Answer], names: Sequence[str]) -> list[Row]:
    """One row a client and local step."""
    return [
        {"kind": "step", "round": number, "step": i, "client": names[client], **metrics}
        for client, (_, steps) in answers.items()
        for i, metrics in enumerate(steps)
    ]


def take_errors(answers: Mapping[int, Answer], names: Sequence[str]) -> dict[str, Counter[str]]:
    """What reward functions failed with at each client, and how often: taken out of the steps' metrics."""
    taken: dict[str, Counter[str]] = {}
    for client, (_, steps) in answers.items():
        for metrics in steps:
            for key in [key for key in metrics if key.startswith(ERRORS)]:
                errors = taken.setdefault(names[client], Counter())
                errors[key.removeprefix(ERRORS)] += round(metrics.pop(key))
    return taken


def round_row(
    number: int, answers: Mapping[int, Answer], records: Sequence[RoundRecord], names: Sequence[str]
) -> Row:
    """Means over clients and steps (tokens and seconds are sums), and each client's signal and weight."""
    row: Row = {"kind": "round", "round": number}
    row |= mean_metrics([metrics for _, steps in answers.values() for metrics in steps])
    for record in records:
        row |= _client_columns(record, names)
    return row


def exchanged(records: Sequence[RoundRecord], mode: str) -> tuple[int, int]:
    """Bytes up and down. Only a federation exchanges any: the other modes have one party each."""
    if mode != "federated":
        return 0, 0
    return sum(r.bytes_up for r in records), sum(r.bytes_down for r in records)


def refusals(records: Sequence[RoundRecord], names: Sequence[str]) -> list[str]:
    """Uploads that were left out, in words."""
    return [
        f"{names[screened.client]}: upload refused: {screened.reason}"
        for record in records
        for screened in record.screened
        if screened.reason is not None
    ]


def _client_columns(record: RoundRecord, names: Sequence[str]) -> Row:
    columns: Row = {}
    for screened in record.screened:
        prefix = f"clients/{names[screened.client]}"
        if screened.upload is None:
            columns[f"{prefix}/refused"] = screened.reason
            continue
        signal = screened.upload.signal
        columns |= {
            f"{prefix}/reward": signal.reward_mean,
            f"{prefix}/reward_std": signal.reward_std,
            f"{prefix}/weight": record.weights[screened.client],
            f"{prefix}/update_norm": screened.norm,
        }
    return columns
