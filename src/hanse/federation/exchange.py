"""A round as the messages of both ends: whoever carries them needs to know nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hanse.federation.records import RoundRecord
from hanse.federation.server import Server

Send = Callable[[Mapping[int, bytes]], Mapping[int, bytes]]
"""Messages by client id -> answers by client id; a client that does not answer is left out."""


def run_round(servers: Sequence[Server], send: Send) -> list[RoundRecord]:
    """One round of each server, side by side; their clients are different ones."""
    talks = {i: server.converse() for i, server in enumerate(servers)}
    waiting = {i: next(talk) for i, talk in talks.items()}
    records: dict[int, RoundRecord] = {}
    while waiting:
        answers = send({client: data for messages in waiting.values() for client, data in messages.items()})
        asked, waiting = waiting, {}
        for i in asked:
            try:
                waiting[i] = talks[i].send(answers)
            except StopIteration as end:
                records[i] = end.value
    return [records[i] for i in range(len(servers))]
