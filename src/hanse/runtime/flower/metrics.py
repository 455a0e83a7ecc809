"""Metrics that leave a client beside its uploads: means over prompts by name, no text."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from hanse.federation.client import Rows
from hanse.grpo.step import ERRORS, mean_metrics
from hanse.privacy.step import UNCOVERED

MAX_ROWS, MAX_NAMES, MAX_TEXT = 1024, 256, 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_.+/-]{1,80}")


def leaving(rows: Rows, prompts: int) -> Rows:
    """What may leave of the metrics of local steps that took `prompts` each.

    Messages of reward functions stay, as they may quote a completion. Steps of one prompt are merged into
    one row, so that no row is about a single prompt if the round has two.
    """
    kept = [{k: v for k, v in row.items() if _tellable(k, v)} for row in rows]
    return [mean_metrics(kept)] if prompts < 2 and len(kept) > 1 else kept


def written_rows(rows: Rows) -> str:
    return json.dumps(rows, allow_nan=False)


def read_rows(text: str) -> Rows:
    """Rows from another party. Raises ValueError for anything but a few rows of finite numbers by name."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"metrics of {len(text)} characters")
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("metrics are not JSON") from error
    if not isinstance(rows, list) or len(rows) > MAX_ROWS or not all(map(_honest, rows)):
        raise ValueError("metrics are not rows of finite numbers by name")
    return [{name: float(value) for name, value in row.items()} for row in rows]


def _honest(row: Any) -> bool:
    return isinstance(row, Mapping) and len(row) <= MAX_NAMES and all(_tellable(k, v) for k, v in row.items())


def _tellable(name: str, value: Any) -> bool:
    if name.startswith((ERRORS, UNCOVERED)) or not _NAME.fullmatch(name):
        return False
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < 1e300
