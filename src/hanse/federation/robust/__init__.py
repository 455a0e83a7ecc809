"""Robust rules, by recipe name. A new one is one new file and one line here."""

from __future__ import annotations

from hanse.federation.robust.base import Method, View
from hanse.federation.robust.bulyan import bulyan, chosen
from hanse.federation.robust.clipping import centred_clipping, norm_clipping
from hanse.federation.robust.dnc import dnc
from hanse.federation.robust.fltrust import fltrust
from hanse.federation.robust.geometric_median import geometric_median
from hanse.federation.robust.krum import krum, multi_krum
from hanse.federation.robust.median import median
from hanse.federation.robust.trimmed_mean import trimmed_mean

ROBUST: dict[str, Method] = {
    "krum": Method(krum, compares=True),
    "multi-krum": Method(multi_krum, compares=True),
    "bulyan": Method(coordinates=bulyan, select=chosen, compares=True),
    "median": Method(coordinates=median),
    "trimmed-mean": Method(coordinates=trimmed_mean),
    "geometric-median": Method(geometric_median, compares=True),
    "centred-clipping": Method(centred_clipping, anchor="last"),
    "norm-clipping": Method(norm_clipping),
    "fltrust": Method(fltrust, anchor="root"),
    "dnc": Method(dnc, compares=True),
}

__all__ = ["ROBUST", "Method", "View"]
