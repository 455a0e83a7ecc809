"""The report page: one HTML file that needs nothing else."""

from __future__ import annotations

from hanse.runs.report.data import ReportData
from hanse.runs.report.document import render

__all__ = ["ReportData", "render"]
