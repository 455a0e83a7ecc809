"""What a run ran on, for reports and bug reports."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("hanse", "torch", "transformers", "peft", "safetensors", "numpy", "pydantic", "tokenizers")


def environment(more: Iterable[str] = ()) -> dict[str, str]:
    """Versions (of `more` packages too), processor, threads. No path and no host name."""
    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    found |= {package: _version(package) for package in (*_PACKAGES, *more)}
    return found | {"cores": str(os.cpu_count())} | _torch()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _torch() -> dict[str, str]:
    try:
        import torch
    except ImportError as error:
        return {"torch threads": f"torch cannot be imported ({error})"}
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {"torch threads": str(torch.get_num_threads()), "accelerator": ", ".join(names) or "none"}
