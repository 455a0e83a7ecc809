"""study.html."""

from __future__ import annotations

from pathlib import Path


def write_page(root: Path) -> Path:
    return root / "study.html"
