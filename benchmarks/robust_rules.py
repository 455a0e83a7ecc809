"""Robust rules against Flower's helper functions, on the same updates.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/robust_rules.py [--repeats 7] [--out DIR]

Multi-Krum: distances, choice and mean, from float32 values in memory to the new model. Peer: Flower's
`select_multikrum` and `aggregate_arrayrecords`. Geometric median: Flower has none; the peer is the published
form, eight passes over the updates, in numpy. Ours runs up to 100 steps, on inner products. The two sides run
in turn; seconds are of the processor, on one thread. "Lost" is the largest relative error of squared
distances among honest clients, beside a float64 reference: Flower takes them between float32 values, ours
between float64 updates. "Difference" is the largest between the two results, in typical steps of an entry.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hanse.federation.robust.base import squared_distances
from hanse.federation.robust.combining import RobustCombination, Updates, reads_of
from hanse.federation.robust.gram import flat_gram
from hanse.recipe.federation import FederationSpec
from hanse.recipe.robust import RobustSpec

STEP = 1e-4
"""Size of an entry's change, of weights around 0.02."""


def uploads(clients: int, parameters: int, liars: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    draw = torch.Generator().manual_seed(0)
    base = 0.02 * torch.randn(parameters, generator=draw)
    values = [base + STEP * torch.randn(parameters, generator=draw) for _ in range(clients)]
    for k in range(liars):
        values[k] = base - 10 * (values[k] - base)
    return base, values


def settle(rule: str, base: torch.Tensor, values: list[torch.Tensor], liars: int) -> torch.Tensor:
    spec = FederationSpec(weighting="uniform", robust=RobustSpec(rule=rule, byzantine=liars))
    read = Updates(base, reads_of(values.__getitem__, range(len(values))), ())
    even = [1 / len(values)] * len(values)
    settled = RobustCombination(spec).settle(1, {}, read, even, liars, lambda pair: base)
    return settled.combined.target.float()


def flower_multi_krum(values: list[torch.Tensor], liars: int) -> Callable[[], np.ndarray]:
    """Messages are made before the clock starts."""
    from flwr.common import ArrayRecord, MetricRecord, RecordDict
    from flwr.serverapp.strategy.multikrum import select_multikrum
    from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

    contents = [
        RecordDict({"arrays": ArrayRecord([v.numpy()]), "metrics": MetricRecord({"n": 1})}) for v in values
    ]

    def run() -> np.ndarray:
        chosen = select_multikrum(contents, liars, len(values) - liars - 2)
        return aggregate_arrayrecords(chosen, "n").to_numpy_ndarrays()[0]

    return run


def weiszfeld(base: np.ndarray, values: list[np.ndarray], passes: int = 8) -> np.ndarray:
    """The geometric median as published, in float32."""
    point = np.mean(values, axis=0)
    for _ in range(passes):
        pulls = np.array([1 / max(1e-6, float(np.linalg.norm(value - point))) for value in values])
        point = sum(np.float32(p) * value for p, value in zip(pulls / pulls.sum(), values, strict=True))
    return point


def in_turn(ours: Callable[[], Any], peer: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Medians of seconds, after a first go of each that does not count."""
    taken: dict[str, list[float]] = {"ours": [], "peer": []}
    for turn in range(repeats + 1):
        for name, run in (("ours", ours), ("peer", peer)):
            start = time.process_time()
            run()
            if turn:
                taken[name].append(time.process_time() - start)
    mine, theirs = (statistics.median(taken[name]) for name in ("ours", "peer"))
    return {"ours": mine, "peer": theirs, "ratio": theirs / mine}


def lost(base: torch.Tensor, values: list[torch.Tensor], liars: int) -> dict[str, float]:
    from flwr.common import ArrayRecord
    from flwr.serverapp.strategy.multikrum import compute_distances

    honest = values[liars:]
    exact = torch.stack([value.double() for value in honest])
    reference = torch.cdist(exact, exact, compute_mode="donot_use_mm_for_euclid_dist").square()
    apart = ~torch.eye(len(honest), dtype=torch.bool)
    mine = squared_distances(flat_gram(base, reads_of(honest.__getitem__, range(len(honest)))))
    theirs = torch.from_numpy(compute_distances([ArrayRecord([v.numpy()]) for v in honest])).double()
    return {
        name: float(((found - reference) / reference)[apart].abs().max())
        for name, found in (("lost_ours", mine), ("lost_peer", theirs))
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--parameters", type=int, default=1_000_000)
    parser.add_argument("--liars", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    liars = arguments.liars
    torch.set_num_threads(1)
    base, values = uploads(arguments.clients, arguments.parameters, liars)
    arrays = [value.numpy() for value in values]
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "multi-krum": (
            lambda: settle("multi-krum", base, values, liars),
            flower_multi_krum(values, liars),
        ),
        "geometric-median": (
            lambda: settle("geometric-median", base, values, liars),
            lambda: weiszfeld(base.numpy(), arrays),
        ),
    }
    cases: list[dict[str, Any]] = []
    for name, (ours, peer) in pairs.items():
        difference = float(np.abs(ours().numpy() - peer()).max()) / STEP
        cases.append({"name": name, **in_turn(ours, peer, arguments.repeats), "difference_steps": difference})
        case = cases[-1]
        print(f"{name:17s} ours {case['ours']:.3f} s  peer {case['peer']:.3f} s  ratio {case['ratio']:.2f}")
    cases[0] |= lost(base, values, liars)
    print(f"distances: error {cases[0]['lost_ours']:.1e}, Flower's {cases[0]['lost_peer']:.1e}")
    from hanse.runs.environment import environment

    sizes = {"clients": arguments.clients, "parameters": arguments.parameters, "liars": liars}
    document = {"cases": cases, **sizes, "machine": environment(["flwr"])}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "robust_rules.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
