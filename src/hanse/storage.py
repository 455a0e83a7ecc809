"""Files and folders that are whole or absent: written beside, synced, renamed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHECKSUMS = "SHA256SUMS"
_LEFTOVERS = (".*.tmp", ".*.old")


def write_text(path: Path, text: str) -> None:
    """Replace a file's content atomically."""
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """The same for a document, which must be finite."""
    write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def sha256(path: Path) -> str:
    """The hexadecimal digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(folder: Path) -> None:
    """Note the digests of a folder's files in it, in the form that `sha256sum --check` reads."""
    lines = [f"{sha256(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def find_damage(folder: Path) -> str | None:
    """What is wrong with a folder that has checksums, in words; None where each file is as it was written."""
    try:
        lines = (folder / CHECKSUMS).read_bytes().decode("ascii").splitlines()
        noted = [(name, digest) for digest, name in (line.split("  ", 1) for line in lines)]
    except (FileNotFoundError, ValueError) as error:
        return f"{CHECKSUMS} cannot be read ({error})"
    for name, digest in noted:
        if not (folder / name).is_file():
            return f"{name} is missing"
        if sha256(folder / name) != digest:
            return f"{name} does not match {CHECKSUMS}"
    return None if noted else f"{CHECKSUMS} is empty"


def remove_leftovers(folder: Path) -> None:
    """Clear away what writers that were killed have left. Only for who knows that no other writes here."""
    for pattern in _LEFTOVERS:
        for path in folder.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """A temporary path for a file that replaces `target` once the block has ended without an error."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(target)
        sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


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
        sync(target.parent)
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
        sync(path)


def sync(path: Path) -> None:
    """What was written to a file, or into a folder, is on disk when this returns."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
