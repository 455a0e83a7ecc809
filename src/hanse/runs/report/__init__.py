"""The report page: one HTML file that needs nothing else."""

from __future__ import annotations

from hanse.runs.report.data import ReportData
from hanse.runs.report.page import render

__all__ = ["ReportData", "render"]
