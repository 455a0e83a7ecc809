"""Clients' states in a checkpoint folder: safetensors and JSON, nothing executable."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hanse.errors import RunError
from hanse.federation.client import ClientState
from hanse.grpo.learner import LearnerState
from hanse.grpo.optimiser import Moments
from hanse.grpo.reward_weights import Balance


def save_client(folder: Path, index: int, state: ClientState) -> None:
    """Write one client's state between rounds.

    The last replies are not kept: server and clients are restored together.
    """
    save_tensors(folder / f"client-{index:04d}.safetensors", *client_parts(state))


def load_client(folder: Path, index: int) -> ClientState:
    """Raises RunError where the file is missing or damaged."""
    return client_of(*load_tensors(folder / f"client-{index:04d}.safetensors"))


def client_parts(state: ClientState) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and fields of a client's state between rounds."""
    tensors = learner_tensors(state.learner)
    optional = {"residual": state.residual, "unsent": state.unsent, "base": state.base}
    optional |= {"personal": state.personal, "offset": state.offset, "success": state.success}
    tensors |= {name: tensor for name, tensor in optional.items() if tensor is not None}
    tensors |= prefixed("kept", state.kept)
    fields = {
        "round": state.round,
        "cursor": state.cursor,
        "base_digest": state.base_digest,
        "offset_version": state.offset_version,
        **learner_fields(state.learner),
    }
    return tensors, fields


def client_of(tensors: Mapping[str, Tensor], fields: Mapping[str, Any]) -> ClientState:
    """The state that these tensors and fields, among others, were written for."""
    return ClientState(
        learner_of(tensors, fields),
        round=fields["round"],
        cursor=fields["cursor"],
        residual=tensors.get("residual"),
        unsent=tensors.get("unsent"),
        base=tensors.get("base"),
        base_digest=fields["base_digest"],
        personal=tensors.get("personal"),
        offset=tensors.get("offset"),
        offset_version=fields.get("offset_version", 0),
        success=tensors.get("success"),
        kept=unprefixed("kept", tensors),
    )


def learner_tensors(learner: LearnerState) -> dict[str, Tensor]:
    tensors = {"first": learner.moments.first, "second": learner.moments.second}
    past = None if learner.balance is None else learner.balance.past_MN
    return tensors if past is None else tensors | {"past_gradients": past}


def learner_fields(learner: LearnerState) -> dict[str, Any]:
    return {
        "step": learner.step,
        "updates": learner.moments.updates,
        "non_finite_streak": learner.non_finite_streak,
        "micro_batch": learner.micro_batch,
        "counters": dict(learner.counters),
        "balance": None if learner.balance is None else [learner.balance.weights_M, learner.balance.norm],
    }


def learner_of(tensors: Mapping[str, Tensor], fields: Mapping[str, Any]) -> LearnerState:
    """The learner that these tensors and fields, among others, were written for."""
    return LearnerState(
        moments=Moments(tensors["first"], tensors["second"], fields["updates"]),
        step=fields["step"],
        non_finite_streak=fields["non_finite_streak"],
        micro_batch=fields["micro_batch"],
        counters=Counter(fields["counters"]),
        balance=_balance(fields.get("balance"), tensors.get("past_gradients")),
    )


def _balance(fields: list[Any] | None, past: Tensor | None) -> Balance | None:
    return None if fields is None else Balance(tuple(fields[0]), fields[1], past)


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under `prefix/name`."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def unprefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those under `prefix/`, by their own names."""
    start = f"{prefix}/"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def save_tensors(path: Path, tensors: dict[str, Tensor], fields: dict[str, Any]) -> None:
    """Tensors with JSON fields in the file's metadata."""
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(flat, path, metadata={"hanse": json.dumps(fields)})


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Raises RunError where the file is missing or damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            fields: dict[str, Any] = json.loads((file.metadata() or {})["hanse"])
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    return tensors, fields
