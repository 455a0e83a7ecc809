"""The report page."""

from __future__ import annotations

from hanse.runs.report.data import ReportData


def render(data: ReportData) -> str:
    return "<!doctype html>"
