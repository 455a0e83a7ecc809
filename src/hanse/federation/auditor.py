"""A server's auditor: tries updates on its own problems, and drops those that it does not trust."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hanse.federation.audit import Evidence, Gain, absorbed, gain_of, probed, trust
from hanse.federation.robust.base import typical
from hanse.federation.screening import Screened
from hanse.recipe.audit import AuditSpec

Probe = Callable[[int, Tensor], Tensor]
"""(round, values, shape (numel,)) -> mean reward of each of the server's N problems, NaN where unscored."""


@dataclass(frozen=True)
class Auditor:
    """`probe` samples with the same random numbers whenever it is asked in the same round."""

    spec: AuditSpec
    probe: Probe

    def audit(
        self,
        round: int,
        before: Mapping[int, Evidence],
        base: Tensor,
        screened: Sequence[Screened],
        values: Callable[[Screened], Tensor],
    ) -> tuple[list[Screened], dict[int, Evidence]]:
        """Uploads with the trust in their clients, those below the floor refused; and the evidence after it.

        Between audits trust stays what it was.
        """
        after = dict(before)
        usable = [s for s in screened if s.upload is not None]
        if usable and round % self.spec.every == 0:
            middle = typical(torch.tensor([s.norm for s in usable], dtype=torch.float64), 0)
            gains = {s.client: self._gain(round, base, values(s), s.norm, middle) for s in usable}
            after = absorbed(self.spec, before, gains)
        return [self._trusted(s, after.get(s.client, Evidence())) for s in screened], after

    def _gain(self, round: int, base: Tensor, values: Tensor, norm: float, middle: float) -> Gain:
        along, against = probed(base, values, norm, middle, self.spec.step)
        return gain_of(self.probe(round, along), self.probe(round, against))

    def _trusted(self, screened: Screened, evidence: Evidence) -> Screened:
        if screened.upload is None:
            return screened
        level = trust(self.spec, evidence)
        if level < self.spec.floor:
            reason = f"loses reward on the server's problems: trust {level:.2g}"
            return replace(screened, upload=None, reason=reason, trust=level)
        return replace(screened, trust=level)
