"""Recipes × seeds, run and compared."""

from __future__ import annotations

from hanse.runs.study.api import run_study
from hanse.runs.study.page import write_page

__all__ = ["run_study", "write_page"]
