"""The runtime over a Flower Grid: clients elsewhere answer, this process evaluates."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from flwr.serverapp import Grid
from torch import Tensor

from hanse.errors import QuorumError, RunError
from hanse.federation.messages import max_message_bytes
from hanse.grpo.evaluation import EvaluationJob, LevelResult
from hanse.privacy.secure.graph import clients_needed
from hanse.recipe.model import Recipe
from hanse.recipe.runtime_checks import participants
from hanse.runtime.base import Answer
from hanse.runtime.flower.agreement import terms
from hanse.runtime.flower.exchange import Exchange, Post
from hanse.runtime.flower.roster import Roster
from hanse.runtime.host import Host
from hanse.storage import write_json

_FILE = "flower.json"
_TTL_FACTOR = 2.0
"""How much longer than a deadline Flower keeps messages, so that late answers are seen to be late."""
_REMEMBERED = 2
"""Exchanges that an answer may be late, for each round that late ones may count; a round has at most two,
where uploads are weighed that come late."""
MOST_EXTRAS = 3
"""Vectors of as many values as the model that an honest upload may carry beside it."""


@dataclass
class Clock:
    """Time, and waiting; tests have their own. `poll`: seconds between looks at the grid."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    poll: float = 0.1


class OverGrid:
    """Carries a federation's messages. Answers come back in the order of the clients, whenever they came.

    `owners`: clients by node id where keys prove it. `say`: notes for the person who watches.
    """

    def __init__(
        self,
        recipe: Recipe,
        names: Sequence[str],
        grid: Grid,
        host: Host,
        *,
        owners: Mapping[int, int] | None = None,
        say: Callable[[str], None] = lambda text: None,
        clock: Clock | None = None,
    ) -> None:
        self.recipe, self.names, self.host, self.say = recipe, list(names), host, say
        self.grid, self.clock = grid, clock or Clock()
        self.deadline_s, wanted = recipe.runtime.deadline_in_force, participants(recipe)
        self.enough = wanted if recipe.runtime.over_select else None
        self.needed = _needed(recipe, wanted)
        self.token, self._owners = uuid4().hex, owners
        self.max_bytes = max_message_bytes(host.layout.numel, host.layout.dtype, MOST_EXTRAS)
        self._notices: list[str] = []
        self._gathered = False
        self._connect()

    def _connect(self) -> None:
        runtime = self.recipe.runtime
        rounds = runtime.stale_rounds if runtime.weighs_late else 0
        ttl = self.deadline_s * max(_TTL_FACTOR, 1.0 + rounds)
        self.roster = Roster(
            self.grid, self.names, terms(self.recipe), self.token, ttl, self.say, self._owners
        )
        remembers = max(_REMEMBERED, _REMEMBERED * rounds)
        self.post = Post(
            self.grid, self.roster, self.token, ttl, self.max_bytes, runtime.weighs_late, remembers
        )

    def exchange(self, messages: Mapping[int, bytes]) -> dict[int, Answer]:
        """Raises QuorumError where, before the first round, too few clients have come by the deadline."""
        self._gather()
        going, end = self.post.begin(messages), self.clock.now() + self.deadline_s
        while not self._over(going, end):
            self.clock.sleep(self.clock.poll)
        if self.enough is not None:
            going.cut(self.enough)
        self._notices += going.close()
        return {client: (answer.frame, answer.rows) for client, answer in sorted(going.answers.items())}

    def _over(self, going: Exchange, end: float) -> bool:
        """Look once: whether all have answered, or enough have, or nobody more will in time."""
        self.roster.refresh()
        going.step()
        self._notices += self.post.late()
        if not going.waiting or (self.enough is not None and len(going.answers) >= self.enough):
            return True
        if self.clock.now() >= end:
            return True
        return going.away and len(going.answers) >= min(self.needed, len(going.messages))

    def _gather(self) -> None:
        """Before the first exchange: wait until all clients are here, or the deadline."""
        if self._gathered:
            return
        end, told = self.clock.now() + self.deadline_s, math.inf
        self.roster.refresh()
        while self.roster.missing and self.clock.now() < end:
            if len(self.roster.missing) < told:
                told = len(self.roster.missing)
                self.say(f"Waiting for {told} of {len(self.names)} clients: {self._missing()}.")
            self.clock.sleep(self.clock.poll)
            self.roster.refresh()
        here = len(self.names) - len(self.roster.missing)
        if here < self.needed:
            by = "federation.secure" if self.recipe.federation_in_force.secure.enabled else "runtime.quorum"
            raise QuorumError(
                f"{here} of {len(self.names)} clients came within {self.deadline_s:g} s "
                f"(runtime.deadline_s), and {self.needed} are needed ({by}). Missing: "
                f"{self._missing()}. Bring them back."
            )
        self._gathered = True

    def _missing(self) -> str:
        return ", ".join(self.names[client] for client in self.roster.missing)

    def late(self) -> dict[int, bytes]:
        return self.post.take()

    def notices(self) -> list[str]:
        told, self._notices = self._notices, []
        return told

    def evaluate(self, values: Tensor, jobs: Sequence[EvaluationJob]) -> list[LevelResult]:
        return [self.host.evaluate(values, job) for job in jobs]

    def personal(self) -> dict[int, Tensor]:
        """Nothing: what clients keep to themselves is with them."""
        return {}

    def save(self, folder: Path) -> None:
        """The run's token, by which clients find their own states again. Those are theirs, and stay there.

        Late answers are not kept: whoever resumes counts them as lost.
        """
        document = {"token": self.token, "counts": dict(self.post.counts), "late": self.post.outstanding}
        write_json(folder / _FILE, document)

    def load(self, folder: Path) -> None:
        """Raises RunError where the file is missing or damaged."""
        try:
            document = json.loads((folder / _FILE).read_bytes())
            self.token, counts = str(document["token"]), Counter(document["counts"])
            lost = int(document.get("late", 0))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{folder / _FILE} cannot be read: {error}") from error
        self._connect()
        self.post.counts = counts
        if lost:
            counts["late_lost"] += lost
            self._notices.append(f"the run stopped with {lost} late answers outstanding, which are lost")

    def counters(self) -> dict[str, int]:
        return dict(self.post.counts)

    def close(self) -> None:
        """The grid is not closed: it belongs to who opened it."""


def _needed(recipe: Recipe, wanted: int) -> int:
    """Answers without which a round of `wanted` clients does not count."""
    secure, least = recipe.federation_in_force.secure, recipe.runtime.needed(wanted)
    return max(least, clients_needed(secure.threshold, wanted)) if secure.enabled else least
