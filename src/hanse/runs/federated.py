"""Modes with clients and a server: federated, local, central."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

from hanse.adversary.liars import Liars
from hanse.federation.lateness import counts_of
from hanse.federation.sending import Outbox
from hanse.recipe.model import Recipe
from hanse.runs.building import Elsewhere
from hanse.runs.cohorts import build_cohorts, exchange, load_cohorts, save_cohorts
from hanse.runs.hosted import Hosted
from hanse.runs.models import Model, current_models
from hanse.runs.quorum import Asked, meet_quorum
from hanse.runs.rows import (
    Row,
    exchanged,
    refusals,
    round_row,
    silences,
    sparsity,
    step_rows,
    take_errors,
    take_left_out,
)
from hanse.runs.spending import Spending
from hanse.runs.suspects import refusals_of, suspects
from hanse.runs.training import RoundResult
from hanse.runtime.base import Runtime
from hanse.runtime.host import Host
from hanse.runtime.local import InTurn
from hanse.runtime.lying import Lying
from hanse.runtime.pool import ProcessPool
from hanse.runtime.probe import auditor_of
from hanse.runtime.root import RootTrainer


class FederatedTraining(Hosted):
    """Clients in a runtime, and their servers here. `idle`: nobody will train, so most clients may stay
    away."""

    def __init__(
        self,
        recipe: Recipe,
        start: Path | None,
        names: list[str],
        *,
        idle: bool = False,
        elsewhere: Elsewhere | None = None,
        accounts: Path | None = None,
    ) -> None:
        self.recipe, self.names, self.idle = recipe, names, idle
        self._elsewhere, self._accounts = elsewhere, accounts
        self.spending, self.silent = Spending(recipe), set[int]()
        self._open = ExitStack()
        self.host, self.runtime = self._build(start)
        auditor = None if idle else auditor_of(recipe, self.host)
        root = RootTrainer(self.host) if self.host.owned else None
        self.cohorts = build_cohorts(recipe, names, self.host.initial, self.host.layout, auditor, root)
        self.runtime = self._with_liars(self.runtime)

    def _build(self, start: Path | None) -> tuple[Host, Runtime]:
        """The host of this process, and the runtime: this very host, a pool, or clients elsewhere."""
        clients = len(self.names)
        if self._elsewhere is not None and not self.idle:
            host = self._open.enter_context(closing(Host(self.recipe, start, [])))
            setting = self._elsewhere.setting(self.recipe, self.names, start, host)
            return host, self._open.enter_context(closing(self._elsewhere.connect(setting)))
        if self.recipe.runtime.workers == 1 or clients == 1 or self.idle:
            needed = not self.idle or self.recipe.federation_in_force.personal
            owned = list(range(clients)) if needed else []
            host = Host(self.recipe, start, owned, None, self._accounts)
            self._open.enter_context(closing(host))
            return host, InTurn(host)
        with ExitStack() as attempt:
            pool = attempt.enter_context(closing(self._pool(start)))
            host = attempt.enter_context(closing(Host(self.recipe, start, [])))
            pool.wait_ready()
            self._open = attempt.pop_all()
        return host, pool

    def _pool(self, start: Path | None) -> ProcessPool:
        return ProcessPool(self.recipe, start, len(self.names), self._accounts)

    def _with_liars(self, runtime: Runtime) -> Runtime:
        """The runtime, and between it and the server those who change what is said."""
        spec = self.recipe.adversary
        if not spec.clients or not (spec.inflates or spec.rewrites) or self.idle:
            return runtime
        server = self.cohorts[0].server
        liars = Liars(spec, Outbox(server.spec, server.layout, server.codec), self.recipe.seed)
        return Lying(runtime, liars, lambda: server.ground)

    def start(self) -> None:
        self.host.scorer.start()

    def round(self, number: int) -> RoundResult:
        met = meet_quorum(number, self.recipe.runtime, self._asked)
        records, answers = met.records, met.answers
        errors, left_out = take_errors(answers, self.names), take_left_out(answers, self.names)
        steps = step_rows(number, answers, self.names)
        row = round_row(number, answers, records, self.names) | sparsity(records, self.cohorts)
        row = self.spending.honest(row) | self.spending.columns(answers, self.names)
        row |= silences(self.silent, self.recipe, self.names)
        row |= {"comm/bytes_up": met.up, "comm/bytes_down": met.down}
        if met.missed:
            row["federation/missed_quorum"] = met.missed
        told = [*met.refused, *left_out]
        return RoundResult(steps, row, told, errors, bytes_up=met.up, bytes_down=met.down)

    def _asked(self) -> Asked:
        """Each cohort asked once for its round."""
        self.silent = set()
        records, answers = exchange(self.cohorts, self.runtime, self.silent)
        up, down = exchanged(records, self.recipe.mode)
        needed = [cohort.server.least for cohort in self.cohorts]
        told = [*refusals(records, self.names), *self.runtime.notices()]
        return Asked(records, answers, needed, told, up, down)

    def models(self) -> list[Model]:
        return current_models(self.cohorts, self.runtime, self.names)

    def save(self, folder: Path) -> None:
        save_cohorts(folder, self.cohorts)
        self.spending.save(folder)
        self.runtime.save(folder)

    def load(self, folder: Path) -> None:
        load_cohorts(folder, self.cohorts)
        self.spending.load(folder)
        self.runtime.load(folder)

    def counters(self) -> dict[str, int]:
        refused = sum(refusals_of(cohort.server.state.ledger).total() for cohort in self.cohorts)
        late = counts_of(self.cohorts[0].server.state.ledger) if self.recipe.runtime.weighs_late else {}
        carried = self.runtime.counters()
        if late:  # what the runtime put aside for a newer one never came to the server
            late["late_discarded"] += carried.pop("late_discarded", 0)
        return {"refused_uploads": refused, **late, **carried}

    def summary(self) -> Row:
        secure = self.recipe.federation_in_force.secure
        told = {"secure": secure.model_dump(exclude={"enabled"})} if secure.enabled else {}
        told |= self.spending.summary()
        return told | suspects(self.recipe, self.cohorts[0].server.state, self.names)

    def close(self) -> None:
        self._open.close()
