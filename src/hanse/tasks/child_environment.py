"""How children are started: with the parent's import path, a fixed hash seed, and few of its variables."""

from __future__ import annotations

import os
import sys

_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")


def command(module: str, *arguments: str) -> list[str]:
    """The command line that runs `module`; -P keeps the current folder out of the import path."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Variables for a child. Tokens and keys of the parent's environment are not among them.

    The hash seed is fixed, so that iteration over sets is the same in every child; one thread for
    linear algebra, since several children run side by side.
    """
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    paths = dict.fromkeys(os.path.abspath(path) for path in sys.path if path)  # noqa: PTH100  "" is dropped
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**passed, **threads, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(paths)}
