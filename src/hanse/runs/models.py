"""What a run evaluates and exports: one model, or one a client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from hanse.federation.personal import Personal
from hanse.runs.cohorts import Cohort
from hanse.runtime.base import Runtime


@dataclass(frozen=True)
class Model:
    """`values`: flat float32, as a policy loads them. `name`: whose it is; None: everybody's."""

    values: Tensor
    name: str | None = None


def current_models(cohorts: Sequence[Cohort], runtime: Runtime, names: Sequence[str]) -> list[Model]:
    """Each cohort's; where factors are personal, each client's: the common values with its own."""
    server = cohorts[0].server
    personal = Personal.of(server.spec.aggregation, server.layout)
    if personal.entries is None:
        return [Model(cohort.server.values(), cohort.name) for cohort in cohorts]
    own = runtime.personal()
    return [Model(personal.with_own(server.values(), own.get(i)), name) for i, name in enumerate(names)]
