"""`[federation.robust]`: how a server combines updates of which some may be lies."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from hanse.recipe.section import Section

RobustName = Literal[
    "none",
    "krum",
    "multi-krum",
    "bulyan",
    "median",
    "trimmed-mean",
    "geometric-median",
    "centred-clipping",
    "norm-clipping",
    "fltrust",
    "dnc",
]
COORDINATE_RULES = ("bulyan", "median", "trimmed-mean")
"""Rules that look at single entries, whose result depends on the coordinates."""
WEIGHTED_RULES = ("geometric-median", "centred-clipping", "norm-clipping")
"""Rules that read the recipe's weights, where these are bounded; all others count every client once."""
REMEMBERING_RULES = ("centred-clipping",)
"""Rules that start from what the last round agreed on."""
_FEWEST: dict[str, tuple[int, int]] = {
    "none": (0, 1),
    "fltrust": (0, 1),
    "krum": (2, 3),
    "multi-krum": (2, 3),
    "bulyan": (4, 3),
}
"""(a, b) where a rule needs n >= a f + b; all others need 2 f < n."""


class RobustSpec(Section):
    """A rule in place of the weighted mean, and how many liars it withstands.

    `byzantine`: f, clients of a round that may send anything; uploads that were refused count among them, as
    they are found. `mixing`: what comes before the rule, each update replaced by the mean of its n - f
    nearest ("nearest"), or random buckets of `bucket` updates by their means ("bucketing").

    `keep`: how many updates Multi-Krum averages (None: n - f - 2). `radius`: at which multiple of the round's
    median length updates are cut (norm-clipping), or their distances from the last aggregate
    (centred-clipping); never a constant, as updates of the first rounds can be tiny. `iterations`:
    geometric-median (None: 100), centred-clipping (None: 1). `removed`: how many clients DnC leaves out, as
    a multiple of f.
    """

    rule: RobustName = "none"
    byzantine: int = Field(default=1, ge=0)
    mixing: Literal["none", "nearest", "bucketing"] = "none"
    bucket: int = Field(default=2, ge=2)
    keep: int | None = Field(default=None, ge=1)
    radius: float = Field(default=1.0, gt=0)
    iterations: int | None = Field(default=None, ge=1, le=10_000)
    removed: float = Field(default=1.0, ge=1)

    @property
    def on(self) -> bool:
        return self.rule != "none"

    def voters(self, clients: int) -> int:
        """What the rule sees of so many clients: their buckets, or themselves."""
        return -(-clients // self.bucket) if self.mixing == "bucketing" else clients

    def fewest_voters(self, liars: int) -> int:
        """Voters without which the rule promises nothing against so many liars."""
        if self.rule == "dnc":
            return math.ceil(self.removed * liars) + liars + 1
        per_liar, more = _FEWEST.get(self.rule, (2, 1))
        return per_liar * liars + more

    def fewest(self, liars: int) -> int:
        """Clients without which the rule promises nothing against so many liars."""
        voters = self.fewest_voters(liars)
        if self.mixing == "bucketing":
            return self.bucket * (voters - 1) + 1
        return max(voters, 2 * liars + 1) if self.mixing == "nearest" else voters

    def most_liars(self, clients: int) -> int | None:
        """The largest f that so many clients allow; None where not even none."""
        fitting = [f for f in range(clients + 1) if self.fewest(f) <= clients]
        return max(fitting, default=None)
