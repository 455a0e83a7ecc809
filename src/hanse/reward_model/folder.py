"""Trained reward models as folders: safetensors and JSON, nothing executable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from hanse import __version__
from hanse.errors import RunError
from hanse.policy.export import load_trained, save_policy
from hanse.policy.parameters import Parameters, sha256_of
from hanse.reward_model.head import RewardModel, Scored
from hanse.storage import new_folder, write_json

RECORD, HEAD_FILE, BACKBONE = "reward_model.json", "head.safetensors", "backbone"
_MOST_TOKENS = 1 << 20
_MOST_TEXT = 1 << 24
"""Bytes of a JSON file."""
_MOST_LAYERS = 1024
_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}


def save_reward_model(
    model: RewardModel, folder: Path, settings: Mapping[str, Any], card: str | None = None
) -> None:
    """Write the model as it computes now; `settings` of its training are kept for who adapts it further. An
    existing folder is replaced."""
    head = {"weight": model.module.head.weight.detach().cpu().contiguous().clone()}
    with new_folder(folder.absolute(), replace=True) as temporary:
        save_file(head, temporary / HEAD_FILE, metadata={"format": "pt"})
        _save_backbone(model, temporary / BACKBONE)
        record = {
            "hanse": __version__,
            "max_tokens": model.max_tokens,
            "head_sha256": sha256_of(head.items()),
            "settings": dict(settings),
        }
        write_json(temporary / RECORD, record)
        if card is not None:
            (temporary / "README.md").write_text(card, encoding="utf-8")


def _save_backbone(model: RewardModel, folder: Path) -> None:
    """The policy's own view of its parameters owns them only for as long as it is written."""
    inner, parameters = model.policy.model, model.parameters
    trained = [p for p in inner.parameters() if p.requires_grad]
    if not model.policy.lora:
        inner.requires_grad_(True)
    with parameters.replaced_by(parameters.cast.clone()):
        save_policy(replace(model.policy, parameters=Parameters(inner)), folder)
    if not model.policy.lora:
        inner.requires_grad_(False)
        for parameter in trained:
            parameter.requires_grad_(True)


def load_reward_model(folder: Path, device: str = "auto") -> tuple[RewardModel, dict[str, Any]]:
    """The model that `save_reward_model` wrote, moved or not, and the settings of its training.

    Raises RunError where it is missing or damaged, holds what would be unpickled, or claims what no model
    has, or another model's head lies beside its backbone.
    """
    record = _record(folder)
    _check_files(folder / BACKBONE)
    policy = load_trained(folder / BACKBONE, allow_untrained=True, device=device)
    model = RewardModel.on(policy, max_tokens=record["max_tokens"])
    try:
        head = load_file(folder / HEAD_FILE)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{folder / HEAD_FILE} cannot be read: {error}") from error
    if head.keys() != {"weight"} or sha256_of(head.items()) != record["head_sha256"]:
        raise RunError(f"{folder}: the head is not the one that was saved.")
    _set_head(model.module, head["weight"], folder)
    return model, dict(record["settings"])


def _set_head(module: Scored, weight: torch.Tensor, folder: Path) -> None:
    if weight.shape != module.head.weight.shape or not bool(weight.isfinite().all()):
        raise RunError(f"{folder}: the head does not fit its backbone.")
    with torch.no_grad():
        module.head.weight.copy_(weight)


def _record(folder: Path) -> dict[str, Any]:
    try:
        record = _json(folder / RECORD)
        fits = type(record["max_tokens"]) is int and 1 <= record["max_tokens"] <= _MOST_TOKENS
        fits = fits and type(record["head_sha256"]) is str and type(record["settings"]) is dict
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{folder} is not a reward model that hanse saved ({RECORD}: {error}).") from error
    if not fits:
        raise RunError(f"{folder / RECORD} is damaged.")
    return record


def _check_files(backbone: Path) -> None:
    """Before any library opens them: layers are built one by one, however small their weights are."""
    for path in sorted(backbone.rglob("*")):
        if path.suffix.lower() in _PICKLES:
            raise RunError(f"{path} may hold code; a reward model that hanse saved has none such.")
        if path.name != "config.json":
            continue
        try:
            layers = _json(path).get("num_hidden_layers", 0)
        except (OSError, ValueError, RecursionError) as error:
            raise RunError(f"{path} cannot be read: {error}") from error
        if type(layers) is not int or not 0 <= layers <= _MOST_LAYERS:
            raise RunError(f"{path}: {layers!r:.20} layers; more than {_MOST_LAYERS} are not read.")


def _json(path: Path) -> dict[str, Any]:
    """Raises ValueError for anything but one object of bounded size."""
    if path.stat().st_size > _MOST_TEXT:
        raise ValueError(f"larger than {_MOST_TEXT >> 20} MiB")
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise ValueError("no object")
    return document
