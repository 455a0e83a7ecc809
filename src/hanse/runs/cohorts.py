"""Who trains with whom: one federation, or in local mode one of a single member for each client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from hanse.errors import RunError
from hanse.federation.server import RoundRecord, Server, ServerState
from hanse.recipe.model import HfPolicy, Recipe, TinyPolicy
from hanse.runtime.base import Answer
from hanse.runtime.state import load_tensors, save_tensors


@dataclass
class Cohort:
    """A server and its clients. `name` is None for the one cohort of a federated or central run."""

    server: Server
    name: str | None = None


def exchange_dtype(recipe: Recipe) -> str:
    """float32, or bfloat16 where full training computes in it: the values that the receiver uses."""
    wanted = recipe.federation.exchange_dtype
    if wanted != "auto":
        return wanted
    policy: TinyPolicy | HfPolicy = recipe.policy
    return "bfloat16" if policy.train == "full" and policy.dtype == "bfloat16" else "float32"


def build_cohorts(recipe: Recipe, names: list[str], master: Tensor) -> list[Cohort]:
    """Cohorts at the start of a run, all from the same values."""
    dtype = exchange_dtype(recipe)

    def server(clients: list[int]) -> Server:
        return Server(recipe.federation, dtype, clients, ServerState(master.cpu().clone()))

    if recipe.mode == "local":
        return [Cohort(server([i]), name) for i, name in enumerate(names)]
    return [Cohort(server(list(range(len(names)))))]


def open_rounds(cohorts: list[Cohort]) -> dict[int, bytes]:
    """The broadcast for each client."""
    messages: dict[int, bytes] = {}
    for cohort in cohorts:
        data = cohort.server.open_round().to_bytes()
        messages |= dict.fromkeys(cohort.server.clients, data)
    return messages


def close_rounds(cohorts: list[Cohort], answers: Mapping[int, Answer]) -> list[RoundRecord]:
    return [
        cohort.server.close_round({k: answers[k][0] for k in cohort.server.clients if k in answers})
        for cohort in cohorts
    ]


def save_cohorts(folder: Path, cohorts: list[Cohort]) -> None:
    """Write each server's state into a checkpoint that is being made."""
    for i, cohort in enumerate(cohorts):
        state = cohort.server.state
        fields: dict[str, Any] = {
            "round": state.round,
            "reward_mean": state.reward_mean,
            "weighting": dict(state.weighting),
            "ledger": dict(state.ledger),
        }
        save_tensors(folder / f"server-{i:04d}.safetensors", {"master": state.master}, fields)


def load_cohorts(folder: Path, cohorts: list[Cohort]) -> None:
    """Raises RunError where a file is missing, damaged, or of another policy."""
    for i, cohort in enumerate(cohorts):
        tensors, fields = load_tensors(folder / f"server-{i:04d}.safetensors")
        state = cohort.server.state
        if tensors["master"].shape != state.master.shape:
            raise RunError(
                f"{folder} holds {tensors['master'].numel()} parameters, and the recipe's policy trains "
                f"{state.master.numel()}: recipe.toml was changed. Undo that, or start a new run."
            )
        state.master, state.round = tensors["master"], fields["round"]
        state.reward_mean, state.weighting = fields["reward_mean"], fields["weighting"]
        state.ledger.clear()
        state.ledger.update(fields["ledger"])
