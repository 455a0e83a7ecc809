"""What our strategies have in common: who is asked, what counts, and a round that nobody spoils."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from torch import Tensor

from hanse.errors import QuorumError
from hanse.randomness import generator
from hanse.runtime.flower.strategies.reading import UnusableError, Usable, flat, read, unflattened

__all__ = ["HanseStrategy", "Usable"]


class HanseStrategy(FedAvg):
    """Draws nodes by `seed`, refuses unusable replies with a reason (`ledger`), and keeps the model where
    fewer than `quorum` are left: Flower's own ends the run at the first inconsistent reply, and waits for
    missing nodes without end.

    `wait_s`: for `min_available_nodes`; then QuorumError. `max_norm_ratio`: updates longer than so many
    times the median are refused; None: none is. Subclasses say how values are combined.
    """

    def __init__(
        self,
        *,
        quorum: int = 1,
        seed: int = 0,
        wait_s: float = 600.0,
        max_norm_ratio: float | None = 10.0,
        fraction_train: float = 1.0,
        min_available_nodes: int = 2,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(
            fraction_train=fraction_train, fraction_evaluate=0.0, min_available_nodes=min_available_nodes
        )
        self.quorum, self.seed, self.wait_s, self.max_norm_ratio = quorum, seed, wait_s, max_norm_ratio
        self.ledger: Counter[str] = Counter()
        self.weights: dict[int, float] = {}
        self._sleep = sleep
        self._sent = ArrayRecord()

    def combine(self, round: int, base: Tensor, usable: Sequence[Usable]) -> tuple[Tensor, list[float]]:
        """New values, float64, shape (numel,), and how much each reply counts, shares of 1."""
        raise NotImplementedError

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Raises QuorumError where too few nodes come within `wait_s`."""
        self._sent = arrays
        nodes = self._drawn(server_round, self._present(grid))
        config["server-round"] = server_round
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return [Message(record, dst_node_id=node, message_type=MessageType.TRAIN) for node in nodes]

    def _present(self, grid: Grid) -> list[int]:
        waited, nodes = 0.0, sorted(grid.get_node_ids())
        while len(nodes) < self.min_available_nodes:
            if waited >= self.wait_s:
                raise QuorumError(
                    f"{len(nodes)} nodes came within {self.wait_s:g} s, and {self.min_available_nodes} are "
                    "needed (min_available_nodes)."
                )
            self._sleep(1.0)
            waited, nodes = waited + 1.0, sorted(grid.get_node_ids())
        return nodes

    def _drawn(self, server_round: int, nodes: Sequence[int]) -> list[int]:
        count = max(1, round(self.fraction_train * len(nodes)))
        order = generator(self.seed, "strategy", server_round).permutation(len(nodes))
        return sorted(nodes[i] for i in order[:count].tolist())

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The combined arrays; none, so that Flower keeps the last ones, where the quorum is missed."""
        base = flat(self._sent)
        usable = self._gated(base, self._usable(replies))
        if len(usable) < max(1, self.quorum):
            self.ledger["rounds without a quorum"] += 1
            return None, None
        target, shares = self.combine(server_round, base, usable)
        self.weights = {reply.node: share for reply, share in zip(usable, shares, strict=True)}
        return unflattened(target, self._sent), _mean_metrics(usable, shares)

    def _usable(self, replies: Iterable[Message]) -> list[Usable]:
        """In the order of node ids, so that the order of arrival does not matter."""
        found: list[Usable] = []
        for reply in replies:
            try:
                found.append(read(reply, self._sent, self.arrayrecord_key))
            except UnusableError as error:
                self._refuse(reply.metadata.src_node_id, str(error))
        return sorted(found, key=lambda one: one.node)

    def _gated(self, base: Tensor, usable: list[Usable]) -> list[Usable]:
        norms = [float((one.values.double() - base.double()).norm()) for one in usable]
        moved = [norm for norm in norms if norm > 0]
        if self.max_norm_ratio is None or not moved:
            return usable
        limit = self.max_norm_ratio * statistics.median(moved)
        kept = []
        for one, norm in zip(usable, norms, strict=True):
            if norm > limit:
                self._refuse(one.node, f"its update is over {self.max_norm_ratio:g} times the median long")
            else:
                kept.append(one)
        return kept

    def _refuse(self, node: int, why: str) -> None:
        self.ledger[f"node {node}: {why}"] += 1


def _mean_metrics(usable: Sequence[Usable], shares: Sequence[float]) -> MetricRecord:
    """Of the metrics that all replies have."""
    names = [name for name in usable[0].metrics if all(name in one.metrics for one in usable)]
    total = sum(abs(share) for share in shares) or 1.0
    means = {
        name: sum(abs(share) / total * one.metrics[name] for one, share in zip(usable, shares, strict=True))
        for name in names
    }
    return MetricRecord(dict(means))
