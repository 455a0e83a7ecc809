"""`[federation.audit]`: problems that the server owns, and what it makes of rewards on them."""

from __future__ import annotations

from pydantic import Field

from hanse.recipe.section import Section


class AuditSpec(Section):
    """Outcomes, not signals: the reward of the server's own problems under each client's update.

    `problems`: how many of the task's training problems the server keeps for itself, as many of each level as
    go; or `path`, a file of rows like the task's. Neither: no audit. `every`: how many rounds apart audits
    are (0: none, the problems are for a rule that needs them). `samples`: completions of each problem.

    `step`: which share of an update is tried, along it and against it. `forget`: which share of what was
    found is forgotten from audit to audit; `tolerance`: a loss of reward that is nothing to be worried about;
    `strength`: how soon trust is lost; `floor`: below this trust an update is left out.
    """

    problems: int | None = Field(default=None, ge=8)
    path: str | None = None
    every: int = Field(default=1, ge=0)
    samples: int = Field(default=1, ge=1)
    forget: float = Field(default=0.1, ge=0, lt=1)
    step: float = Field(default=0.4, gt=0, le=1)
    tolerance: float = Field(default=0.02, ge=0)
    strength: float = Field(default=0.5, gt=0)
    floor: float = Field(default=0.05, ge=0, lt=1)

    @property
    def owns(self) -> bool:
        """Whether the server has problems of its own."""
        return self.problems is not None or self.path is not None

    @property
    def on(self) -> bool:
        """Whether there are audits."""
        return self.owns and self.every > 0
