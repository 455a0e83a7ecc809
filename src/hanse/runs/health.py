"""Warnings that name the knob: what a person would notice in the metrics after hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hanse.errors import HanseError
from hanse.recipe.model import GrpoSpec
from hanse.runs.report.formats import plural

_MOSTLY = 0.95
_MOST_TEXTS = 20
OTHER_ERRORS = "other messages"


class DegenerateError(HanseError):
    """Training had no signal for too long, and the recipe asked to fail then."""

    exit_code = 4


@dataclass
class Health:
    """Counts, per client, the steps in a row without signal; speaks once about each trouble.

    `errors` counts the completions on which a reward function failed, by its message.
    """

    spec: GrpoSpec
    without_signal: dict[str, int] = field(default_factory=dict)
    truncated: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)

    def observe(self, client: str, row: Mapping[str, Any]) -> list[str]:
        """New warnings after one step. Raises DegenerateError where `on_degenerate = "fail"`."""
        if "public/reward" in row:
            return []  # tells of public problems, and of no client's own
        flat = row.get("frac_reward_zero_std", 0.0) >= 1.0
        cut = row.get("completions/clipped_ratio", 0.0) >= _MOSTLY
        self.without_signal[client] = self.without_signal.get(client, 0) + 1 if flat else 0
        self.truncated[client] = self.truncated.get(client, 0) + 1 if cut else 0
        patience, messages = self.spec.degenerate_patience, []
        if self.without_signal[client] == patience:
            messages.append(self._no_signal(client, row, cut))
        elif self.truncated[client] == patience:
            messages.append(self._truncation(client, row))
        new = [message for message in messages if message not in self.said]
        self.said += new
        if new and flat and self.spec.on_degenerate == "fail":
            raise DegenerateError(new[0])
        return new

    def count_errors(self, client: str, errors: Mapping[str, int]) -> list[str]:
        """Warnings about messages of reward functions that are new in this run, up to a bound."""
        new = []
        for message, count in errors.items():
            known = message in self.errors or len(self.errors) < _MOST_TEXTS
            name = message if known else OTHER_ERRORS
            if name not in self.errors:
                new.append(
                    f"client {client}: a reward function failed on {plural(count, 'completion')}: {name}"
                )
            self.errors[name] = self.errors.get(name, 0) + count
        return new

    def _no_signal(self, client: str, row: Mapping[str, Any], cut: bool) -> str:
        start = (
            f"client {client}: in {self.spec.degenerate_patience} steps in a row all rewards of every group "
            f"were equal (reward {row.get('reward', float('nan')):.3g}), so nothing is learnt."
        )
        if cut:
            return f"{start} Nearly every completion is cut off: raise grpo.max_new_tokens ({self._limit})."
        if row.get("reward", 0.0) > 0:
            return f"{start} Its problems are too easy, or the reward is constant: use harder ones."
        return f"{start} Its problems are too hard or the reward cannot be reached: raise grpo.group_size, \
start from a better policy, or check the reward on completions.jsonl."

    def _truncation(self, client: str, row: Mapping[str, Any]) -> str:
        share = row.get("completions/clipped_ratio", 0.0)
        return (
            f"client {client}: {share:.0%} of completions hit grpo.max_new_tokens ({self._limit}); raise it, "
            "or let the prompt ask for shorter answers."
        )

    @property
    def _limit(self) -> int:
        return self.spec.max_new_tokens

    def to_state(self) -> dict[str, Any]:
        return {
            "without_signal": self.without_signal,
            "truncated": self.truncated,
            "said": self.said,
            "errors": self.errors,
        }

    @classmethod
    def from_state(cls, spec: GrpoSpec, state: Mapping[str, Any]) -> Health:
        return cls(
            spec,
            dict(state["without_signal"]),
            dict(state["truncated"]),
            list(state["said"]),
            dict(state.get("errors", {})),
        )
