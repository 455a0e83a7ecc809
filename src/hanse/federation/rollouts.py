"""Rollouts shared among clients by the server (ours): more where prompts still teach.

A group whose rewards are all equal teaches nothing. How often that happens differs among clients; the
rollouts of a round stay as many as they were, and half of them move to where groups are informative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hanse.federation.budget import share_entries
from hanse.federation.signal import Signal

PAST = 0.5
"""Share of the past in a client's informative share."""
Shares = dict[int, float]
"""Smoothed share of informative groups, by client."""


def smoothed(before: Mapping[int, float], signals: Mapping[int, Signal]) -> Shares:
    """The shares after a round. Who reported no group keeps its share; a first one stands for itself."""
    after = dict(before)
    for client, signal in signals.items():
        if signal.groups > 0:
            now = signal.informative / signal.groups
            after[client] = PAST * before.get(client, now) + (1 - PAST) * now
    return after


def fewest_prompts(each: int) -> int:
    """Half an equal share, which everybody keeps."""
    return (each + 1) // 2


def allotted(rule: str, clients: Iterable[int], shares: Mapping[int, float], each: int) -> dict[int, int]:
    """Prompts a step by client under `federation.rollouts`; none where clients follow their own recipe."""
    return share_prompts(clients, shares, each) if rule == "informative" else {}


def share_prompts(clients: Iterable[int], shares: Mapping[int, float], each: int) -> dict[int, int]:
    """Prompts a step by client, in all as many as with `each` for everybody.

    Everybody gets half of `each`; the rest goes out in proportion to `shares`, in whole prompts by largest
    remainder. A client without a share counts like the mean of the others; without any, all get `each`.
    """
    ids = sorted(clients)
    known = [shares[k] for k in ids if k in shares]
    if not known or max(known) <= 0:
        return dict.fromkeys(ids, each)
    mean, floor = sum(known) / len(known), fewest_prompts(each)
    rest = len(ids) * (each - floor)
    extra = share_entries([rest] * len(ids), [shares.get(k, mean) for k in ids], 1 / len(ids))
    return {k: floor + n for k, n in zip(ids, extra, strict=True)}
