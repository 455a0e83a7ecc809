"""What the folder of a trained LoRA adapter holds beside it."""

from __future__ import annotations

from pathlib import Path

from hanse.recipe.model import PolicySpec, TinyPolicy


def takes_base_along(policy: PolicySpec) -> bool:
    """Whether the folder has `base/`: where the base has no name by which peft would find it."""
    if isinstance(policy, TinyPolicy):
        return True
    return is_packed(policy.path) or (Path(policy.path).expanduser() / "adapter_config.json").is_file()


def is_packed(path: str) -> bool:
    """Whether `policy.path` names a GGUF file, whose model is unpacked as bfloat16."""
    return path.startswith("package:") or path.endswith(".gguf")
