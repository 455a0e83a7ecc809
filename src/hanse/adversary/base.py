"""The seam: what a lying client sends instead of an honest reply."""

from __future__ import annotations

from collections.abc import Callable

from hanse.federation.messages import Report, Upload
from hanse.recipe.adversary import AdversarySpec

UpdateAttack = Callable[[AdversarySpec, Report | Upload], Report | Upload]
"""(options, the honest reply) -> what is sent. The same message gets the same lie."""
