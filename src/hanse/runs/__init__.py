"""What is left behind: run folders, checkpoints, metrics, reports. And how runs start and go on."""

from __future__ import annotations

from hanse.runs.api import Run, evaluate, export, resume, train
from hanse.runs.reporting import write_report

__all__ = ["Run", "evaluate", "export", "resume", "train", "write_report"]
