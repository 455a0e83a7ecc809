"""Mode "reward-only": the server trains on its questions, and its clients score what it samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
from torch import Tensor

from hanse.errors import QuorumError, RunError
from hanse.federation.client import Rows
from hanse.federation.draw import Draw
from hanse.federation.reward_only.jury import Jury, JuryState
from hanse.federation.reward_only.messages import FloatArray
from hanse.grpo.step import grpo_step
from hanse.policy.sampler import Sampler
from hanse.recipe.model import Recipe
from hanse.runs.hosted import Hosted
from hanse.runs.models import Model
from hanse.runs.report.reading import SERVER
from hanse.runs.rows import Row, round_row, step_rows, take_errors
from hanse.runs.training import RoundResult
from hanse.runtime.base import Runtime
from hanse.runtime.host import Host, client_data, fitting
from hanse.runtime.local import InTurn
from hanse.runtime.pool import ProcessPool
from hanse.runtime.state import learner_fields, learner_of, learner_tensors, load_tensors, save_tensors

_FILE = "server-0000.safetensors"


class RewardOnlyTraining(Hosted):
    """The server here, its clients in a host of their own or in processes. `idle`: only to evaluate."""

    def __init__(self, recipe: Recipe, start: Path | None, names: list[str], *, idle: bool = False) -> None:
        self.recipe, self.names = recipe, names
        self._open = ExitStack()
        self.host, self.runtime = self._build(start, idle)
        limit = recipe.grpo.max_prompt_tokens
        questions = [p for part in client_data(recipe, self.host.task) for p in part.problems]
        questions = fitting(questions, self.host.policy, limit, "the server")
        self.draw = Draw(questions, recipe.seed, len(names), 0)
        self.answers: dict[int, Rows] = {}
        auxiliary = fitting(self.host.owned, self.host.policy, limit, "the server")
        self.jury = Jury(recipe.reward_only, len(names), auxiliary, self._send, recipe.seed)

    def _build(self, start: Path | None, idle: bool) -> tuple[Host, Runtime]:
        clients = list(range(len(self.names)))
        with ExitStack() as attempt:
            pool = self.recipe.runtime.workers > 1 and len(clients) > 1 and not idle
            if pool:
                workers = attempt.enter_context(closing(ProcessPool(self.recipe, start, len(clients))))
                workers.wait_ready()
            host = attempt.enter_context(closing(Host(self.recipe, start, [])))
            theirs = host if idle or pool else Host(self.recipe, start, clients)
            runtime: Runtime = workers if pool else attempt.enter_context(closing(InTurn(theirs)))
            self._open = attempt.pop_all()
        return host, runtime

    def start(self) -> None:
        self.host.scorer.start()

    def round(self, number: int) -> RoundResult:
        up, down = self.jury.state.bytes_up, self.jury.state.bytes_down
        self.answers = {}
        self.jury.examine(self.host.scorer)
        sampler, learner = Sampler(self.host.policy, self.host.sampling), self.host.learner
        steps = [
            dict(grpo_step(self.draw, sampler, self.jury, learner).metrics)
            for _ in range(self.recipe.grpo.local_steps)
        ]
        refused = self.jury.take_refused()
        told = [f"{self.names[client]}: reply refused: {reason}" for client, reason in refused]
        if all(step.get("reward") is None for step in steps):
            why = f" {'; '.join(told[:5])}." if told else ""
            raise QuorumError(f"round {number}: nobody scored a candidate.{why} The last round is kept.")
        up, down = self.jury.state.bytes_up - up, self.jury.state.bytes_down - down
        columns = client_columns(self.names, self.jury.take_given(), refused)
        return self._result(number, steps, told, columns | {"comm/bytes_up": up, "comm/bytes_down": down})

    def _result(self, number: int, steps: Rows, told: list[str], columns: Row) -> RoundResult:
        errors = take_errors(self.answers, self.names)
        own, names = step_rows(number, self.answers, self.names), [*self.names, SERVER]
        rows = step_rows(number, {len(self.names): steps}, names)
        row = round_row(number, {len(self.names): steps}, [], names) | columns
        up, down = columns["comm/bytes_up"], columns["comm/bytes_down"]
        return RoundResult([*own, *rows], row, told, errors, bytes_up=up, bytes_down=down)

    def _send(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        answers = self.runtime.exchange(messages)
        for client, (_, rows) in answers.items():
            self.answers.setdefault(client, []).extend(rows)
        return {client: data for client, (data, _) in answers.items()}

    def models(self) -> list[Model]:
        return [Model(self.host.policy.parameters.master.to("cpu", copy=True))]

    def save(self, folder: Path) -> None:
        state, learner = self.jury.state, self.host.learner.state
        tensors: dict[str, Tensor] = {
            "master": self.host.policy.parameters.master,
            **learner_tensors(learner),
        }
        if state.right_KA is not None:
            tensors["right"] = state.right_KA
        fields = learner_fields(learner) | {
            "cursor": self.draw.cursor,
            "number": state.number,
            "ledger": dict(state.ledger),
            "bytes": [state.bytes_up, state.bytes_down],
        }
        save_tensors(folder / _FILE, tensors, fields)
        self.runtime.save(folder)

    def load(self, folder: Path) -> None:
        """Raises RunError where a file is missing, damaged, or of another policy."""
        tensors, fields = load_tensors(folder / _FILE)
        parameters = self.host.policy.parameters
        if tensors["master"].shape != parameters.master.shape:
            raise RunError(f"{folder} is of another policy: recipe.toml was changed. Undo that.")
        parameters.load(tensors["master"])
        device = parameters.master.device
        on_device = {
            name: tensor.to(device) for name, tensor in tensors.items() if name in ("first", "second")
        }
        self.host.learner.state = learner_of({**tensors, **on_device}, fields)
        self.draw.cursor = fields["cursor"]
        ledger, traffic = Counter[str](fields["ledger"]), fields["bytes"]
        self.jury.state = JuryState(fields["number"], tensors.get("right"), ledger, *traffic)
        self.runtime.load(folder)

    def counters(self) -> dict[str, int]:
        refused = self.jury.state.ledger.total()
        own = self.host.learner.state.counters
        return {"refused_replies": refused, **(self.runtime.counters() | own)}

    def summary(self) -> Row:
        right = self.jury.state.right_KA
        if right is None:
            return {}
        shares = [None if row.isnan().all() else float(row.nanmean()) for row in right]
        return {"reward_only": {"competence": dict(zip(self.names, shares, strict=True))}}

    def close(self) -> None:
        self._open.close()


def client_columns(
    names: Sequence[str], given: Mapping[int, FloatArray], refused: Sequence[tuple[int, str]]
) -> Row:
    """Of a round: how many candidates each client scored, their mean score, and why a reply was refused."""
    columns: Row = {f"clients/{names[client]}/refused": reason for client, reason in refused}
    for client, scores in given.items():
        known = scores[~np.isnan(scores)]
        columns[f"clients/{names[client]}/scored"] = known.size
        columns |= {f"clients/{names[client]}/reward": float(known.mean())} if known.size else {}
    return columns
