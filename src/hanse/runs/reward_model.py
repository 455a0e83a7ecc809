"""Mode "reward-model": clients with preferences, and the model or models that they train together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hanse.errors import QuorumError, RecipeError
from hanse.federation.records import ServerState
from hanse.federation.wire.layout import Layout
from hanse.grpo.evaluation import EvaluationJob, LevelResult, choose, level_of, levels_by_split
from hanse.grpo.learner import summed
from hanse.policy.build import build_policy
from hanse.policy.policy import Policy
from hanse.randomness import generator
from hanse.recipe.model import Recipe
from hanse.reward_model.bradley_terry import accuracy
from hanse.reward_model.client import PreferenceClient
from hanse.reward_model.fleet import Fleet
from hanse.reward_model.folder import save_reward_model
from hanse.reward_model.groups import Groups, Labels
from hanse.reward_model.head import RewardModel
from hanse.reward_model.learner import PreferenceLearner
from hanse.reward_model.server import DrawnServer
from hanse.reward_model.tracker import Tracker
from hanse.runs.cohorts import Cohort, load_cohorts, save_cohorts
from hanse.runs.models import Model
from hanse.runs.reward_model_rows import Standing, round_rows, standing_row
from hanse.runs.rows import Row, refusals
from hanse.runs.training import RoundResult
from hanse.runtime.host import client_data
from hanse.runtime.state import load_client, load_tensors, save_client, save_tensors
from hanse.tasks.partition import ClientData
from hanse.tasks.problem import Problem, Split, Task

_MOST_PAIRS = 64
"""Validation pairs of a client on which its standing is told every round."""


class RewardModelTraining:
    """All clients in this process. Of several models one `Model` holds all values, one after another."""

    def __init__(self, recipe: Recipe, start: Path | None, task: Task) -> None:
        torch.set_num_threads(recipe.runtime.threads)
        self.recipe, self.task, self.spec = recipe, task, recipe.reward_model
        self.parts = client_data(recipe, task)
        self.names = [part.name for part in self.parts]
        policy = build_policy(recipe.policy, recipe.start_seed, start, task.vocabulary)
        trains = self.spec.train == "all"
        self.model = RewardModel.on(policy, max_tokens=self.spec.max_tokens, train_backbone=trains)
        self.learner = PreferenceLearner(self.model, self.spec)
        self._levels = levels_by_split(task, recipe.evaluation.level_column)
        self.labels = labels_of(recipe, self.parts)
        self.fleet = self._fleet()
        self.cohorts = [Cohort(server) for server in self.fleet.servers]
        self.last: Standing | None = None

    # --- building -----------------------------------------------------------------------------------------

    def _fleet(self) -> Fleet:
        spec, parameters = self.spec, self.model.parameters
        federation = self.recipe.federation
        layout = Layout(parameters.names, parameters.shapes, "float32")
        clients = [
            PreferenceClient(
                self.learner,
                id=i,
                name=part.name,
                problems=part.problems,
                seed=self.recipe.seed,
                federation=federation,
                layout=layout,
            )
            for i, part in enumerate(self.parts)
        ]
        given = Groups.given(self.labels) if spec.known_groups else None
        most = spec.groups if spec.method == "debiased" else 1
        return Fleet(
            spec,
            self.recipe.seed,
            federation.wanted(len(clients)),
            federation.weighting,
            clients,
            [self._server(i, layout) for i in range(self._models)],
            self.labels,
            Tracker(len(clients), most, spec.ema, spec.warmup_rounds, given),
            self.learner,
        )

    @property
    def _models(self) -> int:
        count = {"oracle": int(self.labels.max()) + 1, "clustered": self.spec.groups}
        return count.get(self.spec.method, 1)

    def _server(self, index: int, layout: Layout) -> DrawnServer:
        master = self.model.parameters.master.cpu().clone()
        if self.spec.method == "clustered":  # equal models would never part
            size = master[self.model.head_entries].numel()
            draw = generator(self.recipe.seed, "cluster", index).normal(0, size**-0.5, size)
            master[self.model.head_entries] = torch.from_numpy(draw).float()
        return DrawnServer(
            self.recipe.federation,
            layout,
            range(len(self.parts)),
            ServerState(master),
            watched=self.model.head_entries,
            seed=self.recipe.seed,
            most_updates=self.spec.local_steps,
        )

    # --- training -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """No reward functions."""

    def round(self, number: int) -> RoundResult:
        records, answers = self.fleet.round(number)
        if not any(record.weights for record in records):
            told = "; ".join(refusals(records, self.names))
            raise QuorumError(f"round {number}: no usable upload. {told} The last round is kept.")
        steps, row = round_rows(number, answers, records, self.names)
        self.last = self._standing()
        row |= standing_row(self.last)
        up, down = (sum(getattr(record, name) for record in records) for name in ("bytes_up", "bytes_down"))
        row |= {"comm/bytes_up": up, "comm/bytes_down": down}
        return RoundResult(steps, row, refusals(records, self.names), bytes_up=up, bytes_down=down)

    def _standing(self) -> Standing:
        """Of every client, before any step of its own, on some of its pairs that nobody trains on."""
        values = self._values()
        split: Split = "validation" if self._levels["validation"] else "held_out"
        margins = {}
        for client in range(len(self.parts)):
            pairs = self._owned[split].get(client, [])[:_MOST_PAIRS]
            if pairs:
                start = self.fleet.model_for(client, values)
                margins[client] = self.fleet.adapted_margins(client, start, pairs, 0)
        return Standing.of(margins, self.labels, self.fleet.tracker)

    # --- evaluation ---------------------------------------------------------------------------------------

    def models(self) -> list[Model]:
        return [Model(torch.cat(self._values()))]

    def _values(self) -> list[Tensor]:
        return [server.values() for server in self.fleet.servers]

    def evaluate(self, model: Model, jobs: Sequence[EvaluationJob]) -> list[LevelResult]:
        """Accuracy after a client's own local steps; of greedy jobs before."""
        return [self._evaluate(model, job) for job in jobs]

    def _evaluate(self, model: Model, job: EvaluationJob) -> LevelResult:
        values = model.values.split(self.model.parameters.numel)
        pool = self._levels[job.split][job.level]
        chosen = choose(pool, job.problems, self.recipe.seed, "evaluation", job.split, job.level)
        by_client: dict[int, list[Problem]] = {}
        for problem in chosen:
            if (client := self._owner(problem)) is not None:
                by_client.setdefault(client, []).append(problem)
        steps = 0 if job.greedy else self.spec.adaptation
        found = [
            accuracy(self.fleet.adapted_margins(k, self.fleet.model_for(k, values), pairs, steps))
            for k, pairs in sorted(by_client.items())
        ]
        count = sum(map(len, by_client.values()))
        return LevelResult(
            job.level, fmean(found) if found else None, None, count, len(chosen) - count, count, 0.0
        )

    @cached_property
    def _owned(self) -> dict[Split, dict[int, list[Problem]]]:
        """Pairs of each split by client."""
        owned: dict[Split, dict[int, list[Problem]]] = {}
        for split, levels in self._levels.items():
            for problem in (problem for pool in levels.values() for problem in pool):
                if (client := self._owner(problem)) is not None:
                    owned.setdefault(split, {}).setdefault(client, []).append(problem)
        return {split: owned.get(split, {}) for split in self._levels}

    def _owner(self, problem: Problem) -> int | None:
        """Who labelled a pair; nobody who trains, for a client with held-out pairs only."""
        return self._client_by_value.get(problem.metadata.get(self.recipe.partition.column))

    @cached_property
    def _client_by_value(self) -> dict[Any, int]:
        column = self.recipe.partition.column
        return {part.problems[0].metadata.get(column): i for i, part in enumerate(self.parts)}

    def levels(self, split: Split) -> dict[str, list[Problem]]:
        return self._levels[split]

    # --- what stays ---------------------------------------------------------------------------------------

    def policies(self) -> list[Policy]:
        return [self.model.policy]

    def policy(self, model: Model) -> Policy:
        self.model.parameters.load(model.values[: self.model.parameters.numel])
        return self.model.policy

    def export(self, model: Model, folder: Path, card: str) -> str:
        """A folder of the reward model, or one for each group. Returns the hash over what was trained."""
        values, parameters = model.values.split(self.model.parameters.numel), self.model.parameters
        hashes = []
        for i, part in enumerate(values):
            parameters.load(part)
            where = folder if len(values) == 1 else folder / f"group-{i}"
            where.parent.mkdir(parents=True, exist_ok=True)
            save_reward_model(self.model, where, self.spec.model_dump(mode="json"), card)
            hashes.append(parameters.sha256())
        return hashes[0] if len(hashes) == 1 else " ".join(hashes)

    def save(self, folder: Path) -> None:
        save_cohorts(folder, self.cohorts)
        for i, client in enumerate(self.fleet.clients):
            save_client(folder, i, client.state)
        tracker = self.fleet.tracker
        known = {str(k): torch.from_numpy(row) for k, row in tracker.signatures.items()}
        save_tensors(folder / "groups.safetensors", known, {"rounds": tracker.rounds})

    def load(self, folder: Path) -> None:
        load_cohorts(folder, self.cohorts)
        for i, client in enumerate(self.fleet.clients):
            client.state, client.earlier = load_client(folder, i), None
        tensors, fields = load_tensors(folder / "groups.safetensors")
        tracker = self.fleet.tracker
        tracker.rounds = fields["rounds"]
        tracker.signatures = {int(k): row.numpy() for k, row in tensors.items()}

    def counters(self) -> dict[str, int]:
        refused = sum(sum(server.state.ledger.values()) for server in self.fleet.servers)
        return {"refused_uploads": refused, **summed(c.state.learner for c in self.fleet.clients)}

    def summary(self) -> Row:
        standing = self._standing() if self.last is None else self.last
        return {"reward_model": {"method": self.spec.method, **standing.to_json()}}

    def close(self) -> None:
        """Nothing is open."""


def labels_of(recipe: Recipe, parts: Sequence[ClientData]) -> Labels:
    """The group of each client, as the data tells it: the level of its first pair.

    Raises RecipeError where a method needs groups and the data has none.
    """
    column = recipe.evaluation.level_column
    names = [level_of(part.problems[0], column) for part in parts]
    spec, distinct = recipe.reward_model, sorted(set(names))
    if len(distinct) < 2 and (spec.method == "oracle" or spec.known_groups):
        problem = f"the data tells one group only in the column {column!r} (evaluation.level_column)."
        raise RecipeError("reward_model.method", problem, 'Name the column of groups, or use "debiased".')
    return np.array([distinct.index(name) for name in names], dtype=np.int64)
