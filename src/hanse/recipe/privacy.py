"""The `[privacy]` part of a recipe: what leaves a client tells next to nothing of any one problem."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hanse.recipe.section import Section

AccountantName = Literal["rdp", "prv"]


class PrivacySpec(Section):
    """Differential privacy of problems (docs/methods/privacy.md). `epsilon`: the budget that every client has
    for the whole run, None: none; `delta`: None: n^-1.1 for a client with n problems; `clip`: the largest
    norm of the gradient of one problem's group; `noise`: standard deviation of the noise over `clip`, None:
    what `epsilon` needs. `accountant`: how losses add up; "prv" is tighter and takes seconds.

    `signals`: what clients tell of their rewards: nothing ("constant"), or means and deviations noised in the
    same budget, where `signal_scale` is their share. `key`: of sampling and noise: drawn by the system, or
    made from the recipe's seed, which guarantees nothing and is for tests. `metrics`: of training problems:
    left out, or kept as `uncovered/...`."""

    enabled: bool = False
    epsilon: float | None = Field(default=None, gt=0, le=100)
    delta: float | None = Field(default=None, gt=0, lt=0.1)
    clip: float = Field(default=1.0, gt=0)
    noise: float | None = Field(default=None, ge=0, le=1e6)
    accountant: AccountantName = "rdp"
    signals: Literal["constant", "noised"] = "constant"
    signal_scale: float = Field(default=0.1, gt=0, le=10)
    key: Literal["system", "seed"] = "system"
    metrics: Literal["withheld", "uncovered"] = "withheld"

    def delta_of(self, problems: int) -> float:
        """The delta of a client with so many problems."""
        return min(0.1, problems**-1.1) if self.delta is None else self.delta

    @property
    def sensitivity(self) -> float:
        """Of a step's sum in units of `clip`: with noised signals a problem adds its share of those."""
        return (1 + self.signal_scale**2) ** 0.5 if self.signals == "noised" else 1.0
