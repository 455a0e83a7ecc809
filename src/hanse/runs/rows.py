"""Rows of metrics.jsonl from what a round returned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hanse.federation.client import Rows
from hanse.federation.public.round import LEFT_OUT
from hanse.federation.records import PublicRecord, RoundRecord, SecureRecord
from hanse.grpo.step import ERRORS, mean_metrics
from hanse.recipe.model import Recipe
from hanse.runs.cohorts import Cohort

Row = dict[str, Any]


def step_rows(number: int, answers: Mapping[int, Rows], names: Sequence[str]) -> list[Row]:
    """One row a client and local step."""
    return [
        {"kind": "step", "round": number, "step": i, "client": names[client], **metrics}
        for client, steps in answers.items()
        for i, metrics in enumerate(steps)
    ]


def take_errors(answers: Mapping[int, Rows], names: Sequence[str]) -> dict[str, Counter[str]]:
    """What reward functions failed with at each client, and how often: taken out of the steps' metrics."""
    taken: dict[str, Counter[str]] = {}
    for client, steps in answers.items():
        for metrics in steps:
            for key in [key for key in metrics if key.startswith(ERRORS)]:
                errors = taken.setdefault(names[client], Counter())
                errors[key.removeprefix(ERRORS)] += round(metrics.pop(key))
    return taken


def round_row(
    number: int, answers: Mapping[int, Rows], records: Sequence[RoundRecord], names: Sequence[str]
) -> Row:
    """Means over clients and steps (tokens and seconds are sums), and each client's signal and weight."""
    row: Row = {"kind": "round", "round": number}
    row |= mean_metrics([metrics for steps in answers.values() for metrics in steps])
    for record in records:
        row |= _client_columns(record, names)
        if record.lora_residual is not None:
            row["federation/lora_residual"] = record.lora_residual
        if record.secure is not None:
            row |= _secure_columns(record.secure)
        if record.public is not None:
            row |= _public_columns(record.public)
    return row


def exchanged(records: Sequence[RoundRecord], mode: str) -> tuple[int, int]:
    """Bytes up and down. Only a federation exchanges any: the other modes have one party each."""
    if mode != "federated":
        return 0, 0
    return sum(r.bytes_up for r in records), sum(r.bytes_down for r in records)


def sparsity(records: Sequence[RoundRecord], cohorts: Sequence[Cohort]) -> Row:
    """What the codec made of a round's uploads, against dense values of the exchange dtype.

    `comm/entries_up`: changed entries sent; `comm/compression`: all entries over those (the papers' ratio);
    `comm/byte_ratio_up`: bytes of dense values over bytes sent, reports and headers included.
    """
    sent = [s for record in records for s in record.screened if s.upload is not None]
    entries, up = sum(s.entries for s in sent), sum(record.bytes_up for record in records)
    layout = cohorts[0].server.layout
    row: Row = {"comm/entries_up": entries}
    if entries:
        row["comm/compression"] = len(sent) * layout.numel / entries
    if up:
        row["comm/byte_ratio_up"] = len(sent) * layout.numel * layout.itemsize / up
    return row


def refusals(records: Sequence[RoundRecord], names: Sequence[str]) -> list[str]:
    """Uploads that were left out, in words, and sums that came to nothing."""
    rejected = [r.secure.rejected for r in records if r.secure is not None and r.secure.rejected is not None]
    return (
        [
            f"{names[screened.client]}: upload refused: {screened.reason}"
            for record in records
            for screened in record.screened
            if screened.reason is not None
        ]
        + [
            f"{names[client]}: public answers refused: {reason}"
            for record in records
            if record.public is not None
            for client, reason in record.public.refused
        ]
        + [f"secure sum rejected: {reason}" for reason in rejected]
    )


def take_left_out(answers: Mapping[int, Rows], names: Sequence[str]) -> list[str]:
    """Public answers that receivers left out, in words, by whose they were: taken out of the steps' metrics.
    A receiver's word about others, so that nobody is refused for it."""
    found = Counter[str]()
    for steps in answers.values():
        for metrics in steps:
            for key in [key for key in metrics if key.startswith(LEFT_OUT)]:
                peer, number = int(key.removeprefix(LEFT_OUT)), round(metrics.pop(key))
                found[names[peer] if peer < len(names) else f"client {peer}"] += number
                metrics["public/left_out"] = metrics.get("public/left_out", 0.0) + number
    return [f"{who}: public answers left out by its peers, as not correct: {n}" for who, n in found.items()]


def silences(silent: Collection[int], recipe: Recipe, names: Sequence[str]) -> Row:
    """Clients that were asked in this round and gave no answer in time. Where more are drawn than are needed,
    those that were only slower than others are not told from the rest, so nobody is named."""
    if recipe.runtime.over_select:
        return {}
    return {f"clients/{names[client]}/silent": 1 for client in sorted(silent)}


def _public_columns(public: PublicRecord) -> Row:
    """Bytes are among those of the round."""
    return {
        "public/shown": public.shown,
        "public/relayed": public.relayed,
        "comm/public_bytes_up": public.bytes_up,
        "comm/public_bytes_down": public.bytes_down,
    }


def _secure_columns(secure: SecureRecord) -> Row:
    """`secure/guarantee` is "none" where keys came from a seed, as in tests: such masks hide nothing."""
    return {
        "secure/living": secure.living,
        "secure/step": secure.step,
        "secure/update_norm": secure.norm,
        "secure/guarantee": "none" if secure.seeded else "honest-but-curious",
    }


def _client_columns(record: RoundRecord, names: Sequence[str]) -> Row:
    columns: Row = {f"clients/{names[k]}/quarantined": left for k, left in record.away.items()}
    if any(screened.trust < 1 for screened in record.screened):
        columns |= {f"clients/{names[s.client]}/trust": s.trust for s in record.screened}
    if record.away:
        columns["clients/quarantined"] = len(record.away)
    for screened in record.screened:
        prefix = f"clients/{names[screened.client]}"
        if screened.upload is None:
            columns[f"{prefix}/refused"] = screened.reason
            continue
        signal = screened.upload.signal
        columns |= {
            f"{prefix}/reward": signal.reward_mean,
            f"{prefix}/reward_std": signal.reward_std,
            f"{prefix}/informative": signal.informative / max(1, signal.groups),
            f"{prefix}/weight": record.weights[screened.client],
            f"{prefix}/changed": screened.upload.changed,
            f"{prefix}/entries": screened.entries,
        }
        if screened.staleness:
            columns[f"{prefix}/staleness"] = screened.staleness
        if record.secure is None:
            columns[f"{prefix}/update_norm"] = screened.norm
    for (a, b), value in record.cosines.items():
        columns[f"federation/cosine/{names[a]}/{names[b]}"] = value
    return columns
