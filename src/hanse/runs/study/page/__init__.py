"""The page about a study: one HTML file that needs nothing else."""

from __future__ import annotations

from hanse.runs.study.page.write import write_page

__all__ = ["write_page"]
