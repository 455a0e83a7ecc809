"""Where Flower's rules mean the same, they choose the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hanse.federation.robust.base import squared_distances
from tests.federation.robust.views import moved, settle

multikrum = pytest.importorskip("flwr.serverapp.strategy.multikrum")
bulyan = pytest.importorskip("flwr.serverapp.strategy.bulyan")
flwr = pytest.importorskip("flwr.common")


def updates(count: int = 9, size: int = 50) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(count, size, generator=draw, dtype=torch.float64)


def records(rows: torch.Tensor):
    return [flwr.RecordDict({"arrays": flwr.ArrayRecord([row.numpy()])}) for row in rows]


def arrays(content) -> np.ndarray:
    return content["arrays"].to_numpy_ndarrays()[0]


def test_distances():
    rows = updates()
    theirs = multikrum.compute_distances([content["arrays"] for content in records(rows)])
    assert squared_distances(rows @ rows.T).numpy() == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize(("rule", "chosen"), [("krum", 1), ("multi-krum", 5)])
def test_krum_and_multi_krum(rule, chosen):
    rows = updates()
    theirs = multikrum.select_multikrum(records(rows), 2, chosen)
    mean = np.mean([arrays(content) for content in theirs], axis=0)
    assert moved(settle(rule, rows, 2)).numpy() == pytest.approx(mean)


def test_bulyans_second_phase():
    """Theirs chooses once where ours iterates, so only what follows is compared."""
    rows = updates()
    settled = settle("bulyan", rows, 1)
    chosen = [row.numpy() for row, c in zip(rows, settled.coefficients_C, strict=True) if c > 0]
    assert len(chosen) == 7
    median = np.median(np.stack(chosen), axis=0)
    (theirs,) = bulyan.aggregate_n_closest_weights([median], [[row] for row in chosen], 5)
    assert moved(settled).numpy() == pytest.approx(theirs)


def test_medians_and_trimmed_means_are_those_of_numpy():
    rows = updates()
    assert moved(settle("median", rows, 2)).numpy() == pytest.approx(np.median(rows.numpy(), axis=0))
    inner = np.sort(rows.numpy(), axis=0)[2:-2].mean(0)
    assert moved(settle("trimmed-mean", rows, 2)).numpy() == pytest.approx(inner)
