"""All clients of a federated reward model, and the server or servers that they train with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from hanse.federation.client import Rows
from hanse.federation.exchange import run_round
from hanse.federation.records import RoundRecord
from hanse.randomness import generator
from hanse.recipe.reward_model import RewardModelSpec
from hanse.reward_model.bradley_terry import loss
from hanse.reward_model.client import PreferenceClient
from hanse.reward_model.groups import Labels
from hanse.reward_model.learner import PreferenceLearner
from hanse.reward_model.sampling import draw_clients
from hanse.reward_model.server import DrawnServer, drawn_weights
from hanse.reward_model.tracker import Tracker
from hanse.tasks.problem import Problem


@dataclass
class Fleet:
    """`labels_K`: true groups, which oracles and figures know; `slots`: of a round; `weighting`: "samples" or
    "uniform". Of several servers each holds the model of one group."""

    spec: RewardModelSpec
    seed: int
    slots: int
    weighting: str
    clients: Sequence[PreferenceClient]
    servers: Sequence[DrawnServer]
    labels_K: Labels
    tracker: Tracker
    learner: PreferenceLearner

    def round(self, number: int) -> tuple[list[RoundRecord], dict[int, Rows]]:
        """One round of all servers: what it did, and the metrics of each client's local steps."""
        posteriors = self.tracker.groups().posteriors_KC
        counts = draw_clients(posteriors, self.slots, generator(self.seed, "reward-model", number))
        weights = drawn_weights(counts, [len(c.problems) for c in self.clients], self.weighting)
        if self.spec.method == "clustered":
            return self._by_choice(weights)
        return self._by_group(weights)

    def _by_group(self, weights: Mapping[int, float]) -> tuple[list[RoundRecord], dict[int, Rows]]:
        rows: dict[int, Rows] = {}
        for i, server in enumerate(self.servers):
            server.invite({k: w for k, w in weights.items() if self.of_label(k) == i})

        def send(messages: Mapping[int, bytes]) -> dict[int, bytes]:
            return {client: self._reply(client, data, rows) for client, data in messages.items()}

        records = run_round(self.servers, send)
        self.tracker.learn(self.servers[0].updates if len(self.servers) == 1 else {})
        return records, rows

    def _by_choice(self, weights: Mapping[int, float]) -> tuple[list[RoundRecord], dict[int, Rows]]:
        """IFCA (2006.04088): every client gets all models, and trains the one with the lowest loss."""
        rows: dict[int, Rows] = {}
        talks = []
        for server in self.servers:
            server.invite(weights)
            talks.append(server.converse())
        offered = [next(talk) for talk in talks]
        chosen = {k: self._choice(k, offered) for k in weights}
        records = []
        for i, talk in enumerate(talks):
            mine = [k for k, server in chosen.items() if server == i]
            answers = {k: self._reply(k, offered[i][k], rows) for k in mine}
            try:
                talk.send(answers)
            except StopIteration as end:
                records.append(end.value)
        return records, rows

    def _choice(self, client: int, offered: Sequence[Mapping[int, bytes]]) -> int | None:
        """Among the servers that invited the client: one may have it in quarantine."""
        inviting = [i for i, messages in enumerate(offered) if client in messages]
        if not inviting:
            return None
        models = [self.clients[client].values_of(offered[i][client]) for i in inviting]
        return inviting[self.lowest_loss(client, models)]

    def _reply(self, client: int, data: bytes, rows: dict[int, Rows]) -> bytes:
        reply, steps = self.clients[client].reply(data)
        rows.setdefault(client, []).extend(steps)
        return reply

    def lowest_loss(self, client: int, models: Sequence[Tensor]) -> int:
        """Which of several models, flat float32, fits a client's training pairs best; the first of equals."""
        losses = []
        for values in models:
            self.learner.model.parameters.load(values)
            losses.append(float(loss(self.learner.margins(self.clients[client].problems))))
        return losses.index(min(losses))

    def of_label(self, client: int) -> int:
        """The server of a client whose group is known; the only one otherwise."""
        return int(self.labels_K[client]) if self.spec.method == "oracle" else 0

    def model_for(self, client: int, models: Sequence[Tensor]) -> Tensor:
        """The values that a client starts from, given those of all servers."""
        if self.spec.method == "clustered":
            return models[self.lowest_loss(client, models)]
        return models[self.of_label(client)]

    def adapted_margins(
        self, client: int, values: Tensor, problems_N: Sequence[Problem], steps: int
    ) -> Tensor:
        """Margins on these pairs after so many local steps from `values`, shape (N,)."""
        return self.adaptation(client, values, problems_N, [steps])[0]

    def adaptation(
        self, client: int, values: Tensor, problems_N: Sequence[Problem], after_E: Sequence[int]
    ) -> list[Tensor]:
        """Margins on these pairs after each of rising numbers of local steps from `values` on the client's
        own ones: the same pairs whenever asked, with fresh moments."""
        parameters = self.learner.model.parameters
        parameters.load(values.to(parameters.master.device))
        draw, state = _Again(self.clients[client].problems, self.seed, client), self.learner.fresh_state()
        done, found = 0, []
        for steps in after_E:
            self.learner.fit(draw, steps - done, state)
            done = steps
            found.append(self.learner.margins(problems_N))
        return found


class _Again:
    """Draws a client's pairs in an order of its own, from the beginning."""

    def __init__(self, problems: Sequence[Problem], seed: int, client: int) -> None:
        self.problems, self._rng = problems, generator(seed, "adaptation", client)
        self._left: list[int] = []

    def __call__(self, count: int) -> tuple[list[Problem], list[int]]:
        while len(self._left) < count:
            self._left += self._rng.permutation(len(self.problems)).tolist()
        places, self._left = self._left[:count], self._left[count:]
        return [self.problems[i] for i in places], []
