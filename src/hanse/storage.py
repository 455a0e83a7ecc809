"""Files and folders that are whole or absent: written beside, synced, renamed."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LEFTOVERS = (".*.tmp", ".*.old")


def write_text(path: Path, text: str) -> None:
    """Replace a file's content atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    _sync_one(temporary)
    temporary.replace(path)
    _sync_one(path.parent)


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """The same for a document, which must be finite."""
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def remove_leftovers(folder: Path) -> None:
    """Clear away what writers that were killed have left. Only for who knows that no other writes here."""
    for pattern in _LEFTOVERS:
        for path in folder.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


@contextmanager
def new_folder(target: Path, *, replace: bool) -> Iterator[Path]:
    """A temporary folder that takes the name `target` once the block has ended without an error.

    Writers at the same time each have their own. With `replace` the last to finish stays, else the first.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.tmp")
    temporary.mkdir()
    try:
        yield temporary
        _sync(temporary)
        (_replace if replace else _claim)(temporary, target)
        _sync_one(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(temporary: Path, target: Path) -> None:
    if not target.exists():
        temporary.rename(target)
        return
    old = temporary.with_suffix(".old")
    target.rename(old)
    temporary.rename(target)
    shutil.rmtree(old)


def _claim(temporary: Path, target: Path) -> None:
    try:
        temporary.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _sync(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        _sync_one(path)


def _sync_one(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
