"""How clients' updates lie to one another."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import torch
from torch import Tensor

MOST_VALUES = 1 << 25
"""Values of all clients together up to which they are held and compared at once."""


def cosines(base: Tensor, values_C: Mapping[int, Tensor]) -> dict[tuple[int, int], float]:
    """The cosine between each two clients' updates; 0 where one of them is zero."""
    if len(values_C) < 2:
        return {}
    updates = torch.stack([values.float() - base.float() for values in values_C.values()])
    norms = updates.norm(dim=1)
    products = (updates @ updates.T / (norms.unsqueeze(1) * norms).clamp(min=1e-30)).tolist()
    places = list(values_C)
    return {(places[i], places[j]): products[i][j] for i, j in combinations(range(len(places)), 2)}
