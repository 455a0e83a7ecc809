"""Clients on other machines, or in Flower's simulation engine: our messages over a Flower Grid.

Flower sees bytes and nothing else. Its telemetry and its question for newer versions are off.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from hanse.errors import RecipeError
from hanse.tasks.optional import install

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"


def require_flower(field: str, *, simulation: bool = False) -> None:
    """Raises RecipeError, about `field`, where Flower (or Ray, which its simulation runs on) is missing."""
    for module in ("flwr", "ray") if simulation else ("flwr",):
        if find_spec(module) is None:
            problem = f"needs the package {module}, which is not installed."
            raise RecipeError(field, problem, f"In the clone of hanse, run `{install('flower')}`.")
