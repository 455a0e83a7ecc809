"""A client's reply to a strategy, checked against what it was sent; faults are said in words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from torch import Tensor

from hanse.federation.signal import MAX_REWARD, Signal

SAMPLES, REWARD_MEAN, REWARD_STD = "num-examples", "reward-mean", "reward-std"
_MAX_SAMPLES = 2**40


@dataclass(frozen=True)
class Usable:
    """A reply that may count: values flat, float32, in the order of the global arrays, shape (numel,)."""

    node: int
    values: Tensor
    signal: Signal
    metrics: Mapping[str, float]


class UnusableError(ValueError):
    """A reply that cannot be used, and why."""


def read(reply: Message, like: ArrayRecord, arrays_key: str) -> Usable:
    """Raises UnusableError."""
    if reply.has_error():
        raise UnusableError(f"Flower error {reply.error.code}")
    found = reply.content.get(arrays_key)
    if not isinstance(found, ArrayRecord) or list(found) != list(like):
        raise UnusableError("its arrays are not those that it was sent")
    values = flat(found, like)
    metrics = _metrics(reply)
    return Usable(reply.metadata.src_node_id, values, _signal(metrics), metrics)


def flat(arrays: ArrayRecord, like: ArrayRecord | None = None) -> Tensor:
    """All floating arrays in their order, float32, shape (numel,). Whole numbers are no parameters.

    With `like`, arrays are held to its shapes and kinds. Raises UnusableError.
    """
    parts = [np.zeros(0, dtype=np.float32)]
    for name, array in arrays.items():
        shape, kind = _header(array)
        if like is not None and (shape, kind) != _header(like[name]):
            raise UnusableError(f"array {name[:80]!r} has another shape or kind")
        if np.dtype(kind).kind == "f":
            parts.append(array.numpy().astype(np.float32, copy=False).reshape(-1))
    values = torch.from_numpy(np.concatenate(parts))
    if not bool(torch.isfinite(values).all()):
        raise UnusableError("its values are not finite")
    return values


def unflattened(values: Tensor, like: ArrayRecord) -> ArrayRecord:
    """`values`, shape (numel,), as arrays like those; whole numbers stay as they are there."""
    record, start = ArrayRecord(), 0
    for name, array in like.items():
        shape, kind = _header(array)
        if np.dtype(kind).kind != "f":
            record[name] = array
            continue
        end = start + math.prod(shape)
        record[name] = Array(values[start:end].numpy().astype(kind).reshape(shape))
        start = end
    return record


def _header(array: Array) -> tuple[tuple[int, ...], str]:
    """Shape and kind as the data themselves say, read before anything is allocated."""
    try:
        stream = BytesIO(array.data)
        version = np.lib.format.read_magic(stream)
        reader = np.lib.format.read_array_header_1_0
        shape, _, kind = (reader if version == (1, 0) else np.lib.format.read_array_header_2_0)(stream)
    except (ValueError, TypeError, SyntaxError) as error:
        raise UnusableError("an array is damaged") from error
    if kind.hasobject or len(array.data) - stream.tell() != math.prod(shape) * kind.itemsize:
        raise UnusableError("an array is damaged")
    return tuple(shape), str(kind)


def _metrics(reply: Message) -> dict[str, float]:
    records = list(reply.content.metric_records.values())
    if len(records) != 1:
        raise UnusableError("it has no metrics, or several sets of them")
    return _numbers(records[0])


def _numbers(record: MetricRecord) -> dict[str, float]:
    found = {name: float(value) for name, value in record.items() if isinstance(value, int | float)}
    if not all(map(math.isfinite, found.values())):
        raise UnusableError("its metrics are not finite")
    return found


def _signal(metrics: Mapping[str, float]) -> Signal:
    samples = metrics.get(SAMPLES, 1.0)
    mean, std = metrics.get(REWARD_MEAN, 0.0), metrics.get(REWARD_STD, 0.0)
    if not 0 < samples < _MAX_SAMPLES or not 0 <= std <= MAX_REWARD or abs(mean) > MAX_REWARD:
        raise UnusableError("its numbers are impossible")
    return Signal(reward_mean=mean, reward_std=std, groups=1, informative=int(std > 0), samples=int(samples))
