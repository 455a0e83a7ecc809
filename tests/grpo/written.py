"""Two rollouts of three tokens with chosen ratios, for values that can be worked out by hand.

Rollout 0 has A = 1 and ratios 1, 1.5, 0.5; rollout 1 has A = -2, ratios 1.5, 0.5 and a masked third token
whose numbers are garbage. Clipping is 0.8 … 1.3.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from hanse.grpo.objectives import Clipping, LossInputs, Totals

RATIOS = torch.tensor([[1.0, 1.5, 0.5], [1.5, 0.5, 1.0]], dtype=torch.float64)
LOGP = torch.tensor([[-1.0, -2.0, -3.0], [-0.5, -1.5, math.nan]], dtype=torch.float64)
ADVANTAGES = torch.tensor([1.0, -2.0], dtype=torch.float64)
MASK = torch.tensor([[True, True, True], [True, True, False]])
CLIPPING = Clipping(0.2, 0.3)
TOTALS = Totals(sequences=2, tokens=5, batch_tokens=10, slots=2, max_tokens=4)


def inputs(logp: torch.Tensor = LOGP, *, ratios: torch.Tensor = RATIOS, **changes: Any) -> LossInputs:
    old = LOGP - ratios.log()
    given: dict[str, Any] = {
        "logp_NT": logp,
        "old_logp_NT": old,
        "advantages_N": ADVANTAGES,
        "mask_NT": MASK,
        "totals": TOTALS,
        "clipping": CLIPPING,
    }
    return LossInputs(**(given | changes))
