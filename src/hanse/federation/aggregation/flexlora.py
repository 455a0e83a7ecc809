"""FlexLoRA (2402.11505): the mean product, cut back to the rank by its singular values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hanse.federation.aggregation.lora import Factors, LoraRule, Merged, means, stacked

_NOTHING = 1e-7
"""Singular values below this share of the largest are rounding."""


def flexlora(factors_C: Sequence[Factors], fresh: Callable[[], Tensor]) -> Merged:
    """sum_k w_k B_k A_k = U S V'; B = U_r sqrt(S_r), A = sqrt(S_r) V_r'. The best of rank r, not exact.

    The SVD is that of the K r x K r core between two QR decompositions.
    """
    left, right = stacked(factors_C)
    rank = factors_C[0].B.shape[1]
    Q, R = torch.linalg.qr(left)
    P, T = torch.linalg.qr(right.T)
    U, S, Vh = torch.linalg.svd(R @ T.T, full_matrices=False)
    root = S[:rank].sqrt()
    B, A = Q @ U[:, :rank] * root, root.unsqueeze(1) * (Vh[:rank] @ P.T)
    return _revived(B, A, S[:rank], means(factors_C)[1])


def _revived(B: Tensor, A: Tensor, S: Tensor, mean: Tensor) -> Merged:
    """Where a singular value is nothing, B = 0 and A the clients' mean: with both zero neither had a
    gradient ever again."""
    rank = mean.shape[0]
    B = torch.nn.functional.pad(B, (0, rank - B.shape[1]))
    A = torch.nn.functional.pad(A, (0, 0, 0, rank - A.shape[0]))
    S = torch.nn.functional.pad(S, (0, rank - len(S)))
    dead = _NOTHING * S[0] >= S
    return Merged(B.masked_fill(dead, 0.0), torch.where(dead.unsqueeze(1), mean, A))


FLEXLORA = LoraRule(merge=flexlora, renews=True)
