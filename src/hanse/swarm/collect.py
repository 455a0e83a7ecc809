"""From the bytes of all nodes to completions in their places: parsed, bounded, and nothing believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hanse.federation.wire.frame import WireError
from hanse.policy.policy import Policy
from hanse.swarm.assignment import Assignment
from hanse.swarm.delivery import Bundle, Delivery, Limits, Text, Tokens


@dataclass(frozen=True)
class Written:
    """A completion in its place. `stopped`: it ends with an end token. `delivery`: None for completions of
    the receiver's own that nobody sent."""

    problem: str
    slot: int
    ids: tuple[int, ...]
    stopped: bool
    delivery: Delivery | None = None


def open_bundles(
    said: Mapping[int, bytes], round: int | None, limits: Limits
) -> tuple[dict[int, Bundle], dict[int, str]]:
    """The bundles that are in order, and why the others are not. `round` None: of any."""
    bundles, refused = {}, {}
    for node, data in sorted(said.items()):
        try:
            bundle = Bundle.from_bytes(data, limits)
            if bundle.node != node or round not in (None, bundle.round):
                raise WireError(f"of node {bundle.node} and round {bundle.round}")
        except WireError as error:
            refused[node] = str(error)
        else:
            bundles[node] = bundle
    return bundles, refused


def choices(bundles: Mapping[int, Bundle], known: Mapping[str, object], most: int) -> dict[int, list[str]]:
    """The problems that nodes have chosen: known ones, each node's first `most`."""
    found = {}
    for node, bundle in bundles.items():
        named = dict.fromkeys(d.problem for d in bundle.deliveries if d.problem in known)
        found[node] = list(named)[:most]
    return found


def place(
    bundles: Mapping[int, Bundle],
    assignment: Assignment,
    policy: Policy,
    longest: int,
    kind: type[Tokens] | type[Text],
) -> tuple[list[Written], dict[int, str]]:
    """Deliveries for slots of their node's own, the first for each, in order of the assignment; and for
    nodes that sent anything else, what it was. `kind`: what travels in this swarm."""
    taken: dict[tuple[str, int], Written] = {}
    strange: dict[int, str] = {}
    for node, bundle in bundles.items():
        for delivery in bundle.deliveries:
            key = (delivery.problem, delivery.slot)
            if assignment.owners.get(key) != node or key in taken:
                strange[node] = "a delivery for a slot that is not its own"
                continue
            written = _read(delivery, policy, longest, kind)
            if isinstance(written, str):
                strange[node] = written
            else:
                taken[key] = written
    return [taken[key] for key in assignment.owners if key in taken], strange


def _read(delivery: Delivery, policy: Policy, longest: int, kind: type[Tokens] | type[Text]) -> Written | str:
    """The delivery as tokens of the receiver's, or what is wrong with it. A text that comes to more tokens
    than may be is cut: another tokenizer has longer ones, so that its sender need not be a liar."""
    if not isinstance(delivery.completion, kind):
        return f"not the {kind.__name__.lower()} that travel in this swarm"
    stop = delivery.finish == "stop"
    if isinstance(delivery.completion, Text):
        ids = tuple(policy.tokenizer(delivery.completion.text, add_special_tokens=False)["input_ids"])
        if not {*policy.tokenizer.all_special_ids, *policy.eos_ids}.isdisjoint(ids):
            return "a text with special tokens, which nobody who reads it would see"
        ids = (*ids, policy.eos_ids[0]) if stop else ids
        if not ids:
            return "a text of no length"
        stop, ids = stop and len(ids) <= longest, ids[:longest]
    else:
        ids = delivery.completion.ids
        if (ids[-1] in policy.eos_ids) != stop:
            return "an end that is not what it says"
    return Written(delivery.problem, delivery.slot, ids, stop, delivery)


@dataclass(frozen=True)
class Grid:
    """P problems of S slots. Where nothing was written, there is one token of padding. Shapes (P, S, T) and
    (P, S); `cell_N`: the flat place p * S + s of every completion."""

    tokens_PST: Tensor
    lengths_PS: Tensor
    stopped_PS: Tensor
    cell_N: Tensor

    def rows(self, values_PS: Tensor) -> Tensor:
        """Of every completion. Values (P, S, …) -> (N, …)."""
        return values_PS.flatten(0, 1)[self.cell_N]

    def spread(self, values_N: Tensor, empty: float) -> Tensor:
        """Back into their places; `empty` elsewhere. Shape (P, S)."""
        flat = torch.full((self.lengths_PS.numel(),), empty, dtype=values_N.dtype)
        flat[self.cell_N] = values_N
        return flat.view_as(self.lengths_PS)


def make_grid(written_N: Sequence[Written], problems_P: Sequence[str], slots: int, pad: int) -> Grid:
    """Places of all completions, padded to the longest."""
    row = {problem: i for i, problem in enumerate(problems_P)}
    width = max((len(w.ids) for w in written_N), default=1)
    size = len(problems_P) * slots
    tokens = torch.full((size, width), pad, dtype=torch.int64)
    lengths, stopped = torch.ones(size, dtype=torch.int64), torch.zeros(size, dtype=torch.bool)
    cells = torch.tensor([row[w.problem] * slots + w.slot for w in written_N], dtype=torch.int64)
    for cell, w in zip(cells.tolist(), written_N, strict=True):
        tokens[cell, : len(w.ids)] = torch.tensor(w.ids)
        lengths[cell], stopped[cell] = len(w.ids), w.stopped
    shape = (len(problems_P), slots)
    return Grid(tokens.view(*shape, width), lengths.view(shape), stopped.view(shape), cells)
