"""Where a run's clients are: in this process, in several, on several machines."""

from __future__ import annotations
