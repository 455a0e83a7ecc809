"""Looking at processes from the outside."""

import os
import time
from pathlib import Path


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def workers(parent=None):
    """Process ids of the scoring workers that `parent` (default: this process) has started."""
    lists = [path.read_text() for path in Path(f"/proc/{parent or os.getpid()}/task").glob("*/children")]
    return [pid for text in lists for pid in text.split() if b"scoring.worker" in command_line(pid)]


def living(mark):
    """Processes, anywhere on this machine, with `mark` on their command line."""
    return [path.name for path in Path("/proc").glob("[0-9]*") if mark.encode() in command_line(path.name)]


def within(seconds, condition):
    """Whether `condition()` becomes true in that time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()
