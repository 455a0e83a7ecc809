"""Who trains with whom: one federation, or in local mode one of a single member for each client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from hanse.errors import RunError
from hanse.federation.audit import Evidence
from hanse.federation.auditor import Auditor
from hanse.federation.client import Rows
from hanse.federation.conduct import Conduct
from hanse.federation.downlink import Downlink
from hanse.federation.ends import server_of
from hanse.federation.exchange import run_round
from hanse.federation.lateness import Latecomers
from hanse.federation.offset import Offset
from hanse.federation.records import RoundRecord, ServerState
from hanse.federation.robust.combining import Root
from hanse.federation.server import Server
from hanse.federation.wire.layout import Layout
from hanse.recipe.model import Recipe
from hanse.recipe.stillness import still_without_signal
from hanse.runtime.base import Runtime
from hanse.runtime.state import load_tensors, prefixed, save_tensors, unprefixed


@dataclass
class Cohort:
    """A server and its clients. `name` is None for the one cohort of a federated or central run."""

    server: Server
    name: str | None = None


def build_cohorts(
    recipe: Recipe,
    names: list[str],
    master: Tensor,
    layout: Layout,
    auditor: Auditor | None = None,
    root: Root | None = None,
) -> list[Cohort]:
    """Cohorts at the start of a run, all from the same values. `auditor`, `root`: what the server makes of
    problems of its own."""

    grpo, runtime, spec = recipe.grpo, recipe.runtime, recipe.federation_in_force
    make = server_of(spec, grpo)
    late = Latecomers(runtime.staleness, runtime.stale_rounds) if runtime.weighs_late else None

    def server(clients: list[int]) -> Server:
        return make(
            spec,
            layout,
            clients,
            ServerState(master.cpu().clone()),
            seed=recipe.seed,
            group_size=grpo.group_size if grpo.screening == "none" else grpo.screen_size,
            most_updates=(grpo.local_steps + spec.public.on) * grpo.iterations * grpo.mini_batches,
            prompts=grpo.prompts_per_step,
            needed=runtime.needed(spec.wanted(len(clients))),
            spare=runtime.over_select,
            still=still_without_signal(recipe),
            auditor=auditor,
            root=root,
            late=late,
            scaling=recipe.policy.lora.scaling if recipe.policy.train == "lora" else 1.0,
        )

    if recipe.mode == "local":
        return [Cohort(server([i]), name) for i, name in enumerate(names)]
    absent = set(recipe.adversary.absent)
    return [Cohort(server([i for i in range(len(names)) if i not in absent]))]


def exchange(
    cohorts: list[Cohort], runtime: Runtime, silent: set[int] | None = None
) -> tuple[list[RoundRecord], dict[int, Rows]]:
    """One round of all cohorts: what it did, and the metrics of each client's local steps. `silent`: takes
    the clients that were asked and did not answer."""
    rows: dict[int, Rows] = {}

    def send(messages: Mapping[int, bytes]) -> dict[int, bytes]:
        answers = runtime.exchange(messages)
        if silent is not None:
            silent.update(messages.keys() - answers.keys())
        cohorts[0].server.late.hear(runtime.late())  # one server wherever clients may be late
        for client, (_, steps) in answers.items():
            rows.setdefault(client, []).extend(steps)
        return {client: data for client, (data, _) in answers.items()}

    return run_round([cohort.server for cohort in cohorts], send), rows


def save_cohorts(folder: Path, cohorts: list[Cohort]) -> None:
    """Write each server's state into a checkpoint that is being made."""
    for i, cohort in enumerate(cohorts):
        state = cohort.server.state
        fields: dict[str, Any] = {
            "round": state.round,
            "reward_mean": state.reward_mean,
            "weighting": dict(state.weighting),
            "ledger": dict(state.ledger),
            "held": list(state.downlink.held.items()),
            "bases": list(state.downlink.bases),
            "reported": list(state.reported.items()),
            "informative": list(state.informative.items()),
            "conduct": state.conduct.to_fields(),
            "evidence": [[client, *astuple(found)] for client, found in state.evidence.items()],
        }
        offset = state.offset
        if offset is not None:
            fields["offset"] = [offset.version, offset.previous, offset.rank, offset.holders]
        tensors = {"master": state.master, **prefixed("optimizer", state.optimizer)}
        tensors |= prefixed("local", state.local) | prefixed("base", state.downlink.bases)
        tensors |= prefixed("robust", state.robust)
        tensors |= {} if offset is None else {"offset/total": offset.total, "offset/step": offset.step}
        save_tensors(folder / f"server-{i:04d}.safetensors", tensors, fields)


def load_cohorts(folder: Path, cohorts: list[Cohort]) -> None:
    """Raises RunError where a file is missing, damaged, or of another policy."""
    for i, cohort in enumerate(cohorts):
        tensors, fields = load_tensors(folder / f"server-{i:04d}.safetensors")
        server = cohort.server
        if tensors["master"].shape != server.state.master.shape:
            raise RunError(
                f"{folder} holds {tensors['master'].numel()} parameters, and the recipe's policy trains "
                f"{server.state.master.numel()}: recipe.toml was changed. Undo that, or start a new run."
            )
        bases = unprefixed("base", tensors)
        server.state = ServerState(
            master=tensors["master"],
            round=fields["round"],
            reward_mean=fields["reward_mean"],
            weighting=fields["weighting"],
            optimizer=unprefixed("optimizer", tensors),
            local=unprefixed("local", tensors),
            robust=unprefixed("robust", tensors),
            downlink=Downlink(dict(fields["held"]), {name: bases[name] for name in fields["bases"]}),
            reported={client: (changed, std) for client, (changed, std) in fields["reported"]},
            informative=dict(fields.get("informative", ())),
            conduct=Conduct.from_fields(fields.get("conduct", {})),
            evidence={client: Evidence(*found) for client, *found in fields.get("evidence", ())},
            ledger=Counter(fields["ledger"]),
            offset=_offset(unprefixed("offset", tensors), fields.get("offset")),
        )


def _offset(tensors: Mapping[str, Tensor], fields: list[Any] | None) -> Offset | None:
    return None if fields is None else Offset(tensors["total"], tensors["step"], *fields)
