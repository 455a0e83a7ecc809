"""Files that are whole or absent: write beside, fsync, rename."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Replace a file's content atomically."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Make a folder atomically: `fill` writes into a temporary one, which then takes the name."""
    temporary = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    fill(temporary)
    for file in sorted(temporary.rglob("*")):
        if file.is_file():
            sync_file(file)
    if path.exists():
        shutil.rmtree(path)
    temporary.rename(path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
