"""Low-rank adapters on a frozen base (2106.09685), through peft, with an initialisation of our own seed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftConfig, PeftModel, get_peft_model, get_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from hanse.errors import RecipeError, RunError
from hanse.policy.parameters import sha256_of
from hanse.randomness import generator
from hanse.recipe.model import LoraSpec

ADAPTER = "default"
_BEYOND_PLAIN = ("use_dora", "modules_to_save", "rank_pattern", "alpha_pattern", "lora_bias")
CONFIG_FILE, WEIGHTS_FILE = "adapter_config.json", "adapter_model.safetensors"


def add_lora(model: PreTrainedModel, spec: LoraSpec, seed: int) -> PeftModel:
    """`model`, frozen, with trainable float32 adapters: B is zero, A depends on `seed` and the module's name.

    Raises RecipeError for targets that the model has not, or that peft cannot adapt.
    """
    config = LoraConfig(
        r=spec.rank,
        lora_alpha=spec.alpha,  # type: ignore[arg-type]
        target_modules=target_modules(model, spec.targets),
        use_rslora=spec.rslora,
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
        task_type="CAUSAL_LM",
    )
    try:
        wrapped = _wrap(model, config)
    except ValueError as error:
        raise RecipeError("policy.lora.targets", f"peft refuses: {error}", "Choose other targets.") from error
    with torch.no_grad():
        for name, layer in lora_layers(wrapped):
            factor = layer.lora_A[ADAPTER].weight
            bound = 1 / math.sqrt(factor.shape[1])
            values = generator(seed, "lora", name).uniform(-bound, bound, tuple(factor.shape))
            factor.copy_(torch.from_numpy(values))
    return wrapped


def _wrap(model: PreTrainedModel, config: PeftConfig) -> PeftModel:
    config.base_model_name_or_path = None
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # peft draws initial values, which are overwritten, and asks transformers for a deprecated property
        warnings.simplefilter("ignore", FutureWarning)
        wrapped = get_peft_model(model, config)
    assert isinstance(wrapped, PeftModel)
    wrapped.eval()
    return wrapped


def lora_layers(model: PeftModel) -> Iterator[tuple[str, Any]]:
    """Each adapted module under its name in the base model."""
    for name, module in model.get_base_model().named_modules():
        if isinstance(module, LoraLayer):
            yield name, module


def target_modules(model: PreTrainedModel, targets: list[str] | str) -> list[str]:
    """Full names of the linear modules meant by `targets`: "all-linear", or names as peft matches them.

    The output layer is never among "all-linear", and no target where it is tied to the embedding.
    Raises RecipeError that lists the model's linear modules.
    """
    head = model.get_output_embeddings()
    tied = bool(getattr(model.config.get_text_config(), "tie_word_embeddings", False))
    linear = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D)
        and not (module is head and (tied or targets == "all-linear"))
    ]
    if targets == "all-linear":
        matches = {"all-linear": linear}
    else:
        matches = {t: [n for n in linear if n == t or n.endswith(f".{t}")] for t in targets}
    missing = [target for target, found in matches.items() if not found]
    if missing or not matches:
        short = ", ".join(dict.fromkeys(name.rpartition(".")[2] for name in linear)) or "none"
        problem = f"the model has no linear module {', '.join(map(repr, missing)) or '(the list is empty)'}."
        raise RecipeError("policy.lora.targets", problem, f'Choose from: {short}; or "all-linear".')
    return sorted({name for found in matches.values() for name in found})


# --- identity -----------------------------------------------------------------------------------------


def base_state(model: PreTrainedModel | PeftModel, *, merged: bool = False) -> dict[str, Tensor]:
    """The tensors of the base model under its own names; with `merged`, adapters added in float32."""
    if not isinstance(model, PeftModel):
        return dict(model.state_dict())
    inner = model.get_base_model()
    layers = dict(lora_layers(model))
    state = {
        name.replace(".base_layer.", "."): tensor
        for name, tensor in inner.state_dict().items()
        if not any(part.startswith("lora_") for part in name.split("."))
    }
    for name, layer in layers.items() if merged else ():
        weight = layer.get_base_layer().weight.detach()
        state[f"{name}.weight"] = (weight.float() + layer.get_delta_weight(ADAPTER)).to(weight.dtype)
    return state


def base_sha256(model: PreTrainedModel | PeftModel) -> str:
    """Over the base model's tensors, adapters left out, in name order: names, shapes, dtypes and values."""
    return sha256_of(sorted(base_state(model).items()))


# --- adapters in folders ------------------------------------------------------------------------------


def adapter_state(model: PeftModel) -> dict[str, Tensor]:
    """The factors under peft's file names."""
    return dict(get_peft_model_state_dict(model, adapter_name=ADAPTER, save_embedding_layers=False))


def read_config(folder: Path) -> LoraConfig:
    """The adapter's configuration. Raises RunError where it is damaged or not plain LoRA."""
    try:
        config: Any = PeftConfig.from_pretrained(str(folder))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RunError(f"{folder / CONFIG_FILE} cannot be read: {error}") from error
    plain = isinstance(config, LoraConfig) and config.bias == "none"
    if not plain or any(getattr(config, name) for name in _BEYOND_PLAIN):
        raise RunError(f"{folder}: only plain LoRA adapters can be read (no DoRA, biases or rank patterns).")
    assert isinstance(config, LoraConfig)
    return config


def load_adapter(
    model: PreTrainedModel, folder: Path, expected: LoraSpec | None = None, *, allow_untrained: bool = False
) -> PeftModel:
    """`model` under the adapter in `folder`.

    Raises RunError unless the file holds exactly the factors that its configuration asks for, in their
    shapes, none of the B all zero (unless `allow_untrained`), and as `expected` says.
    """
    config = read_config(folder)
    if expected is not None:
        _compare(config, expected, model, folder)
    try:
        tensors = load_file(folder / WEIGHTS_FILE)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{folder / WEIGHTS_FILE} cannot be read: {error}") from error
    config.inference_mode = False
    try:
        wrapped = _wrap(model, config)
    except ValueError as error:  # targets that the base has not
        raise RunError(f"{folder}: the adapter does not fit its base model: {error}") from error
    own = adapter_state(wrapped)
    _refuse_differences(own, tensors, folder)
    idle = [n for n, t in tensors.items() if "lora_B" in n and not bool(t.any())]
    if idle and not allow_untrained:
        raise RunError(f"{folder}: {len(idle)} adapters were never trained (B is zero), first {idle[0]}.")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])
    return wrapped


def _refuse_differences(own: dict[str, Tensor], read: dict[str, Tensor], folder: Path) -> None:
    missing, unexpected = sorted(own.keys() - read.keys()), sorted(read.keys() - own.keys())
    if missing or unexpected:
        first = (missing or unexpected)[0]
        raise RunError(
            f"{folder}: {len(missing)} adapter tensors are missing and {len(unexpected)} unexpected, "
            f"first {first}."
        )
    for name, tensor in own.items():
        if tensor.shape != read[name].shape:
            shapes = f"{tuple(read[name].shape)}, not {tuple(tensor.shape)}"
            raise RunError(f"{folder}: {name} has the shape {shapes}.")


def _compare(config: LoraConfig, expected: LoraSpec, model: PreTrainedModel, folder: Path) -> None:
    wanted = target_modules(model, expected.targets)
    listed = config.target_modules
    try:
        found = target_modules(model, listed if isinstance(listed, str) else sorted(listed or ()))
    except RecipeError:
        found = []
    pairs = {
        "rank": (config.r, expected.rank),
        "alpha": (config.lora_alpha, expected.alpha),
        "rslora": (config.use_rslora, expected.rslora),
        "targets": (found, wanted),
    }
    for name, (has, should) in pairs.items():
        if has != should:
            detail = "" if name == "targets" else f" ({has}, not {should})"
            raise RunError(f"{folder}: the adapter's {name} is not that of the recipe{detail}.")
