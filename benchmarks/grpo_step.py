"""One GRPO step of ours against one of TRL's GRPOTrainer: same weights, prompts, lengths and rewards.

    python benchmarks/grpo_step.py [--case tiny] [--repeats 7] [--threads 2] [--out benchmarks/results]

Each side has a process of its own, and they take turns, repeat by repeat; figures are medians over repeats.
End tokens are suppressed, so that every completion has full length. On CUDA all is done in bfloat16, else in
float32.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
DIFFERENCES = {
    "ours only": [
        "encodes a prompt once a group, in sampling and in training",
        "leaves groups out whose advantages are all 0 (see `ours_without_skipping`)",
        "remembers the sampler's log-probs, so that a second update needs no extra forward",
        "draws every rollout from a random stream of its own",
    ],
    "TRL only": [
        "computes the entropy of every position, and min/max metrics",
        "hands prompts through a data loader, and tokenises them each step",
        "scores log-probs of prompt positions too on CPU, and throws them away",
        "writes completions into a log table in memory",
    ],
}


def run_case(case: Any, repeats: int, threads: int | None) -> dict[str, Any]:
    """Both sides in turn. Raises RuntimeError if one of them fails."""
    from step.worker import Worker

    common = ["--case", case.name, "--repeats", str(repeats)]
    common += ["--threads", str(threads)] if threads else []
    ours = Worker(__file__, [*common, "--worker", "ours"])
    peer = Worker(__file__, [*common, "--worker", "peer"])
    load = [os.getloadavg()[0]]
    seconds: dict[str, list[float]] = {"ours": [], "ours_without_skipping": [], "peer": []}
    for _ in range(repeats):
        seconds["ours"].append(ours.ask("run"))
        seconds["peer"].append(peer.ask("run"))
        seconds["ours_without_skipping"].append(ours.ask("run without skipping"))
    load.append(os.getloadavg()[0])
    return _result(case, seconds, ours.facts, ours.close(), peer.close()) | {"load_average": load}


def _result(
    case: Any, seconds: dict[str, list[float]], facts: Any, ours: dict[str, Any], peer: dict[str, Any]
) -> dict[str, Any]:
    median = {side: statistics.median(values) for side, values in seconds.items()}
    flops, phases, gemm = facts.pop("flops"), ours["phases"], facts.pop("gemm")
    return {
        "name": case.name,
        "unit": "seconds a step, median of repeats",
        **median,
        "ratio": median["peer"] / median["ours"],
        "ratio_without_skipping": median["peer"] / median["ours_without_skipping"],
        "ratios_by_repeat": [p / o for p, o in zip(seconds["peer"], seconds["ours"], strict=True)],
        "target": case.target,
        "shape": {"prompts": case.P, "group": case.G, "prompt_tokens": case.L, "new_tokens": case.T},
        **facts,
        "repeats": seconds,
        "steps_a_repeat": case.steps,
        "phases": phases,
        "peer_generate": peer["generate"],
        "flops": flops,
        "gemm_flops_a_second": gemm,
        "gemm_fraction": sum(flops.values()) / median["ours"] / gemm,
        "gemm_fraction_by_phase": {k: flops[k] / phases[k] / gemm for k in flops},
        "peak_mib": {"ours": ours["peak_mib"], "peer": peer["peak_mib"]},
    }


def report(result: dict[str, Any]) -> None:
    ms = {k: 1e3 * result[k] for k in ("ours", "ours_without_skipping", "peer", "peer_generate")}
    phases = ", ".join(f"{k} {1e3 * v:.1f}" for k, v in result["phases"].items())
    low, high = min(result["ratios_by_repeat"]), max(result["ratios_by_repeat"])
    print(f"{result['name']}: {result['parameters'] / 1e6:.2f} M parameters, {result['shape']}")
    print(f"  ours {ms['ours']:.1f} ms ({phases}); without skipping {ms['ours_without_skipping']:.1f} ms")
    print(f"  TRL  {ms['peer']:.1f} ms (generate {ms['peer_generate']:.1f})")
    print(f"  ratio {result['ratio']:.2f} ({low:.2f} … {high:.2f}; target {result['target']:g})", end="")
    print(f", without skipping {result['ratio_without_skipping']:.2f}")
    print(f"  {100 * result['gemm_fraction']:.0f} % of the measured matrix-product rate", end="")
    peak = {side: round(mib) for side, mib in result["peak_mib"].items()}
    print(f"; peak MiB {peak}; load {result['load_average'][0]:.1f}", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--case", action="append", help="tiny, 5M, smollm, 135m-config; may be repeated")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--worker", choices=("ours", "peer"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    import torch
    from step.cases import CASES, DEFAULT

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.worker:
        serve(CASES[arguments.case[0]], arguments)
        return
    results = []
    for name in arguments.case or DEFAULT:
        reason = missing(name)
        if reason:
            print(f"{name}: skipped: {reason}")
            continue
        results.append(run_case(CASES[name], arguments.repeats, arguments.threads))
        report(results[-1])
    from hanse.runs.environment import environment

    machine = environment() | {"torch threads": torch.get_num_threads()}
    machine["dtype"] = "bfloat16" if torch.cuda.is_available() else "float32"
    document = {"cases": results, "machine": machine, "differences": DIFFERENCES}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "grpo_step.json").write_text(json.dumps(document, indent=2) + "\n")


def missing(name: str) -> str | None:
    """Why a case cannot be run here."""
    from importlib.util import find_spec

    from step.cases import SMOLLM

    from hanse.errors import RecipeError
    from hanse.policy.gguf import gguf_file

    if find_spec("trl") is None:
        return "the peer, TRL, is not installed: pip install -e '.[bench]'."
    if name == "smollm":
        try:
            gguf_file(SMOLLM)
        except RecipeError as error:
            return str(error)
    return None


def serve(case: Any, arguments: argparse.Namespace) -> None:
    from step.worker import serve_ours, serve_peer

    (serve_ours if arguments.worker == "ours" else serve_peer)(case, arguments.repeats)


if __name__ == "__main__":
    main()
