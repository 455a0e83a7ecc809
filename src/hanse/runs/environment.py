"""What a run ran on, for reports and bug reports."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("hanse", "torch", "transformers", "peft", "safetensors", "numpy", "pydantic", "tokenizers")


def environment() -> dict[str, str]:
    """Versions, processor, threads. No path and no host name."""
    import torch

    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    found["cores"] = str(os.cpu_count())
    found["torch threads"] = str(torch.get_num_threads())
    found["accelerator"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return found
