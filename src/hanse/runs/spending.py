"""What a run's clients have spent of their privacy: columns of its rows, and what the summary says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hanse.federation.client import Rows
from hanse.privacy.guarantee import statement
from hanse.recipe.model import Recipe
from hanse.runs.folder import read_json
from hanse.runs.rows import Row
from hanse.storage import write_json

_FILE = "privacy.json"
_PREFIX = "privacy/"
_CONSTANT = ("/reward", "/reward_std", "/informative")


class Spending:
    """The last that each client told of its account, by its name."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self.clients: dict[str, dict[str, Any]] = {}

    def columns(self, answers: Mapping[int, Rows], names: Sequence[str]) -> Row:
        """Of the clients that answered: the largest loss, and each one's. Nothing without `[privacy]`."""
        if not self._recipe.privacy.enabled:
            return {}
        abstained = 0.0
        for client, steps in answers.items():
            told = {
                k.removeprefix(_PREFIX): v for row in steps for k, v in row.items() if k.startswith(_PREFIX)
            }
            abstained += told.pop("abstained", 0.0)
            if told or names[client] not in self.clients:
                self.clients[names[client]] = told if _credible(told) else {}
        known = self.clients.values()
        row: Row = {"privacy/abstained": abstained}
        row |= {
            f"clients/{name}/epsilon": one["epsilon"]
            for name, one in self.clients.items()
            if "epsilon" in one
        }
        for name in ("epsilon", "delta"):
            values = [one[name] for one in known if name in one]
            row |= {f"privacy/{name}": max(values)} if values else {}
        row["privacy/exhausted"] = min((one.get("exhausted", 0.0) for one in known), default=0.0)
        row["privacy/guarantee"] = "none" if self._unprotected else "prompt-level"
        return row

    @property
    def _unprotected(self) -> bool:
        return any(one.get("seeded") or "epsilon" not in one for one in self.clients.values())

    def honest(self, row: Row) -> Row:
        """The row without what clients only said because something had to be said."""
        if not self._recipe.privacy.enabled or self._recipe.privacy.signals == "noised":
            return row
        return {name: value for name, value in row.items() if not name.endswith(_CONSTANT)}

    def summary(self) -> Row:
        """`privacy`: each client's account, and in words what they come to."""
        if not self._recipe.privacy.enabled:
            return {}
        spent = {
            name: {**one, "epsilon": one.get("epsilon"), "seeded": bool(one.get("seeded"))}
            for name, one in self.clients.items()
        }
        words = statement(spent, together=self._recipe.mode == "federated")
        return {"privacy": {"guarantee": words, "clients": spent}}

    def save(self, folder: Path) -> None:
        if self._recipe.privacy.enabled:
            write_json(folder / _FILE, self.clients)

    def load(self, folder: Path) -> None:
        if self._recipe.privacy.enabled:
            self.clients = read_json(folder / _FILE)


def _credible(told: Mapping[str, float]) -> bool:
    """Whether it can be an account: another party may say anything, and nothing is no guarantee."""
    return 0 < told.get("delta", 0.0) < 1 and told.get("epsilon", 0.0) >= 0
