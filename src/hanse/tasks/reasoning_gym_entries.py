"""A child that generates reasoning-gym entries: a job as JSON on stdin, the entries as JSON on stdout."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from hanse.tasks.packing import pack


def entries(generator: str, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """{"entries": one list a job}, or why there are none: "missing", "known" (other names), "refused"."""
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        return {"missing": str(error)}
    if generator not in DATASETS:
        return {"known": sorted(DATASETS)}
    try:
        made = []
        for job in jobs:
            data = reasoning_gym.create_dataset(generator, **job)
            made.append([pack(dict(data[i])) for i in range(job["size"])])
    except Exception as error:  # noqa: BLE001  generators refuse arguments in many ways
        return {"refused": f"{type(error).__name__}: {error}"}
    return {"entries": made}


def main() -> None:
    job = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        reply = entries(job["generator"], job["jobs"])
    json.dump(reply, sys.stdout)


if __name__ == "__main__":
    main()
