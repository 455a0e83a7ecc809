"""A round as the messages of both ends: whoever carries them needs to know nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from hanse.federation.records import RoundRecord
from hanse.federation.server import Server

Send = Callable[[Mapping[int, bytes]], Mapping[int, bytes]]
"""Messages by client id -> answers by client id; a client that does not answer is left out."""


def run_round(servers: Sequence[Server], send: Send) -> list[RoundRecord]:
    """One round of each server; their clients are different ones.

    Broadcast, whole values for those who ask, with a budget reports and grants, uploads.
    """
    replies = dict(send(_merged(server.open_round() for server in servers)))
    again = _merged(server.resend(replies) for server in servers)
    if again:
        replies |= send(again)
    grants = _merged(server.grant(replies) for server in servers)
    uploads = send(grants) if grants else replies
    return [server.close_round(uploads) for server in servers]


def _merged(parts: Iterable[Mapping[int, bytes]]) -> dict[int, bytes]:
    merged: dict[int, bytes] = {}
    for part in parts:
        merged |= part
    return merged
