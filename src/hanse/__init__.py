"""Hanse: several owners train one reasoning model together by GRPO."""

from __future__ import annotations

__version__ = "0.1.0"
