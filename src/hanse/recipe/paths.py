"""Relative paths in a recipe become absolute, so that a run does not depend on the current folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def resolve_paths(document: dict[str, Any], folder: Path) -> None:
    """Make the file paths of an unvalidated recipe document absolute, in place, counting from `folder`.

    Data files, reward files, node files and reward models always; a model or data set only where it exists
    there or the path starts like one ("./", "../", "~"), since it may be the name of one on the hub.
    """
    task, policy, rewards = (document.get(key) for key in ("task", "policy", "rewards"))
    if isinstance(task, dict):
        files = task.get("type") in ("jsonl", "parquet", "preferences")
        for key in ("path", "held_out_path"):
            _replace(task, key, folder, always=files)
    federation = document.get("federation")
    audit = federation.get("audit") if isinstance(federation, dict) else None
    if isinstance(audit, dict):
        _replace(audit, "path", folder, always=True)
    if isinstance(policy, dict):
        _replace(policy, "path", folder, always=False)
    consensus = _section(document, "grpo", "shaping", "consensus")
    _replace(consensus, "nodes", folder, always=True)
    _replace(_section(document, "evaluation"), "nodes", folder, always=True)
    models = _section(document, "reward_only").get("models")
    if isinstance(models, list):
        models[:] = [_absolute(one, folder) if isinstance(one, str) else one for one in models]
    for reward in rewards if isinstance(rewards, list) else []:
        if isinstance(reward, dict) and reward.get("type") == "reward-model":
            _replace(reward, "path", folder, always=True)
            if isinstance(reward.get("arguments"), dict):
                _replace(reward["arguments"], "pairs", folder, always=True)
        elif isinstance(reward, dict) and isinstance(reward.get("path"), str):
            file, colon, function = reward["path"].rpartition(":")
            if colon and file.endswith(".py"):
                reward["path"] = f"{_absolute(file, folder)}:{function}"


def _section(document: dict[str, Any], *path: str) -> dict[str, Any]:
    """The table at `path`; an empty one where there is none."""
    table: Any = document
    for key in path:
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _replace(section: dict[str, Any], key: str, folder: Path, *, always: bool) -> None:
    value = section.get(key)
    if not isinstance(value, str) or not value:
        return
    local = value.startswith(("./", "../", "~")) or value in (".", "..")
    if always or local or (folder / value).exists():
        section[key] = _absolute(value, folder)


def _absolute(path: str, folder: Path) -> str:
    return str((folder / Path(path).expanduser()).resolve())
