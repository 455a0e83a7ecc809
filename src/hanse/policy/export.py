"""Trained policies as folders that plain transformers and peft load, and back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from hanse import __version__
from hanse.errors import RecipeError, RunError
from hanse.policy.hf import (
    BASE_FOLDER,
    assemble,
    find_device,
    freeze_tables,
    load_base,
    load_pretrained,
    quiet,
)
from hanse.policy.lora import (
    ADAPTER,
    CONFIG_FILE,
    WEIGHTS_FILE,
    adapter_state,
    base_sha256,
    base_state,
    load_adapter,
)
from hanse.policy.parameters import sha256_of
from hanse.policy.policy import Policy
from hanse.recipe.model import LoraSpec
from hanse.storage import new_folder

RECORD_FILE = "hanse.json"


def save_policy(policy: Policy, folder: Path, card: str | None = None) -> None:
    """Write the policy as it computes now; `card` becomes the README. An existing folder is replaced.

    All parameters trained: a model folder in the policy's dtype. LoRA: a peft adapter; its base is named
    in adapter_config.json, or saved in `base/` where it has no name. LoRA on a base with an offset: a model
    folder with both merged in, as an adapter alone would be useless. `hanse.json` keeps what `load_trained`
    verifies.
    """
    folder = folder.absolute()
    with new_folder(folder, replace=True) as temporary:
        if policy.offset is not None:
            _save_merged(policy, temporary)
        elif policy.lora:
            _save_adapter(policy, temporary, folder)
        else:
            _save_model(policy.model, base_state(policy.model), temporary)
        policy.tokenizer.save_pretrained(temporary)
        _write_json(temporary / RECORD_FILE, _record(policy))
        if card is not None:
            (temporary / "README.md").write_text(card, encoding="utf-8")


def _record(policy: Policy) -> dict[str, Any]:
    if policy.offset is not None:
        return _merged_record(policy)
    record = {
        "hanse": __version__,
        "train": "lora" if policy.lora else "full",
        "dtype": str(_dtype(base_state(policy.model))).removeprefix("torch."),
        "trained_sha256": policy.parameters.sha256(),
    }
    if policy.lora:
        return record | {"base_sha256": base_sha256(policy.model)}
    return record | ({"frozen_sha256": frozen} if (frozen := _frozen_sha256(policy.model)) else {})


def _frozen_sha256(model: PreTrainedModel) -> str | None:
    """Over what does not train of a model trained in full; None where all of it does."""
    frozen = sorted((name, p) for name, p in model.named_parameters() if not p.requires_grad)
    return sha256_of(frozen) if frozen else None


def _merged_record(policy: Policy) -> dict[str, Any]:
    """`base_sha256` is the original base's, which training leaves as it was."""
    model: Any = policy.model
    state = base_state(model, merged=True)
    names = sorted(
        name.replace(".base_layer.", ".")
        for name, _ in model.get_base_model().named_parameters()
        if ".lora_" not in name
    )
    with policy.reference():
        original = base_sha256(model)
    return {
        "hanse": __version__,
        "train": "full",
        "dtype": str(_dtype(state)).removeprefix("torch."),
        "trained_sha256": sha256_of((name, state[name]) for name in names),
        "base_sha256": original,
    }


def _dtype(state: dict[str, Tensor]) -> torch.dtype:
    """What a model with these tensors computes in."""
    return next(tensor.dtype for tensor in state.values() if tensor.is_floating_point())


def _save_model(model: PreTrainedModel, state: dict[str, Tensor], folder: Path) -> None:
    dtype = _dtype(state)  # saving empties `state`
    with quiet():
        model.save_pretrained(folder, state_dict=state)
    _set_dtype(folder, dtype)


def _save_merged(policy: Policy, folder: Path) -> None:
    model: Any = policy.model
    _save_model(model.get_base_model(), base_state(model, merged=True), folder)


def _save_adapter(policy: Policy, temporary: Path, final: Path) -> None:
    """The adapter, and its base if that has no name; `final` is where both will be."""
    model: Any = policy.model
    tensors = {name: t.detach().cpu().contiguous() for name, t in adapter_state(model).items()}
    save_file(tensors, temporary / WEIGHTS_FILE, metadata={"format": "pt"})
    if policy.base_name is None:
        _save_base(policy, temporary / BASE_FOLDER)
    config = model.peft_config[ADAPTER].to_dict() | {
        "base_model_name_or_path": policy.base_name or str(final / BASE_FOLDER),
        "revision": policy.base_revision,
        "inference_mode": True,
    }
    _write_json(temporary / CONFIG_FILE, config)


def _save_base(policy: Policy, folder: Path) -> None:
    """The frozen base, which loads in the dtype that it was used in."""
    model: Any = policy.model
    if policy.base_files is None:
        _save_model(model.get_base_model(), base_state(model), folder)
        policy.tokenizer.save_pretrained(folder)
    else:
        shutil.copytree(policy.base_files, folder)
        _set_dtype(folder, _dtype(base_state(model)))


def _set_dtype(folder: Path, dtype: torch.dtype) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("torch_dtype", None)
    _write_json(path, config | {"dtype": str(dtype).removeprefix("torch.")})


def _write_json(path: Path, document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=2, sort_keys=True, default=sorted)  # peft's sets
    path.write_text(text + "\n", encoding="utf-8")


# --- derived folders ----------------------------------------------------------------------------------


def copy_policy(source: Path, out: Path) -> None:
    """Copy an exported policy, or a folder of several; adapters with a base beside them then name its copy.

    Also mends the path inside a folder that was moved. Raises RunError where there is no policy, or a damaged
    adapter_config.json.
    """
    found = _policies(source)
    with new_folder(out.absolute(), replace=True) as temporary:
        shutil.copytree(source, temporary, dirs_exist_ok=True)
        for folder in found:
            if (source / folder / CONFIG_FILE).is_file() and (source / folder / BASE_FOLDER).is_dir():
                _rename_base(temporary / folder / CONFIG_FILE, out.absolute() / folder / BASE_FOLDER)


def _policies(source: Path) -> list[Path]:
    """Where in `source` there are policies that `save_policy` wrote. Raises RunError where there is none."""
    found = sorted(path.parent.relative_to(source) for path in source.rglob(RECORD_FILE))
    if not found:
        raise RunError(f"{source} holds no policy that hanse saved ({RECORD_FILE} is missing).")
    return found


def _rename_base(config: Path, base: Path) -> None:
    try:
        document = json.loads(config.read_text(encoding="utf-8"))
        _write_json(config, document | {"base_model_name_or_path": str(base)})
    except (ValueError, TypeError) as error:
        raise RunError(f"{CONFIG_FILE} of the policy is damaged: {error}.") from error


def merge_policies(source: Path, out: Path, card: str | None = None) -> None:
    """`merge_policy` for an exported policy, or for each in a folder of several, all with one `card`.

    Those without LoRA are copied. Raises RunError where one cannot be read; then nothing is written.
    """
    with new_folder(out.absolute(), replace=True) as temporary:
        for folder in _policies(source):
            if (source / folder / CONFIG_FILE).is_file():
                merge_policy(source / folder, temporary / folder, card)
            else:
                copy_policy(source / folder, temporary / folder)


def merge_policy(source: Path | Policy, out: Path, card: str | None = None) -> None:
    """Write a full model: the adapter added to its base in float32 and rounded once to the base's dtype.

    The policy itself is not changed. Raises RunError where `source` cannot be read.
    """
    policy = load_trained(source, allow_untrained=True) if isinstance(source, Path) else source
    model: Any = policy.model
    with new_folder(out.absolute(), replace=True) as temporary:
        if policy.lora:
            _save_merged(policy, temporary)
        else:
            _save_model(model, base_state(model), temporary)
        policy.tokenizer.save_pretrained(temporary)
        if card is not None:
            (temporary / "README.md").write_text(card, encoding="utf-8")


# --- loading ------------------------------------------------------------------------------------------


def load_trained(
    folder: Path, expected: LoraSpec | None = None, *, allow_untrained: bool = False, device: str = "auto"
) -> Policy:
    """The policy that `save_policy` wrote, in the dtype that it was evaluated in, moved or not.

    Raises RunError where a tensor is missing, unexpected or of another shape, where a B is all zero (unless
    `allow_untrained`: an adapter before its first step), where base or trained values are not those that
    were saved, and where rank, alpha, targets or scaling differ from `expected`.
    """
    record = _read_record(folder)
    try:
        policy = _load_recorded(folder, record, expected, allow_untrained, find_device(device))
    except RecipeError as error:
        raise RunError(f"{folder}: {error.problem} {error.remedy}") from error
    if policy.parameters.sha256() != record["trained_sha256"]:
        raise RunError(f"{folder}: the trained tensors are not those that were saved.")
    return policy


def _load_recorded(
    folder: Path, record: dict[str, Any], expected: LoraSpec | None, untrained: bool, device: torch.device
) -> Policy:
    dtype = getattr(torch, record["dtype"])
    if record["train"] == "full":
        loaded = load_pretrained(str(folder), None, dtype, device)
        if loaded.unexpected:
            raise RunError(f"{folder}: unexpected tensors, first {loaded.unexpected[0]}.")
        if "frozen_sha256" in record:
            freeze_tables(loaded.model)
            if _frozen_sha256(loaded.model) != record["frozen_sha256"]:
                raise RunError(f"{folder}: the frozen tensors are not those that were saved.")
        return assemble(loaded, loaded.model, lora=False)
    base = load_base(folder, dtype, device)
    if base_sha256(base.model) != record["base_sha256"]:
        raise RunError(f"{folder}: the base model {base.name or 'in base/'} is not what was trained on.")
    return assemble(base, load_adapter(base.model, folder, expected, allow_untrained=untrained), lora=True)


def _read_record(folder: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads((folder / RECORD_FILE).read_text(encoding="utf-8"))
        getattr(torch, record["dtype"])
        known = record["trained_sha256"] if record["train"] == "full" else record["base_sha256"]
        if not isinstance(known, str):
            raise ValueError("a digest is no text")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise RunError(f"{folder} is not a policy that hanse saved ({RECORD_FILE}: {error}).") from error
    return record
