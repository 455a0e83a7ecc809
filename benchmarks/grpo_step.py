"""One GRPO step of ours against one of TRL's GRPOTrainer: same weights, prompts, lengths and rewards.

    python benchmarks/grpo_step.py [--case tiny] [--repeats 7] [--threads 2] [--out benchmarks/results]

Both sides run in one process and take turns, repeat by repeat; figures are medians over repeats. End tokens
are suppressed, so that every completion has full length. On CUDA all is done in bfloat16, else in float32.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
WARM_UP = 3
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


def run_case(case: Any, repeats: int, gemm: float) -> dict[str, Any]:
    """Both sides in turn. Raises RecipeError if a packaged model is missing."""
    from step.arithmetic import step_flops
    from step.cases import build, make_problems
    from step.ours import PHASES, Ours
    from step.peer import Peer

    policy = build(case)
    problems = make_problems(case, policy, case.P * (WARM_UP + repeats * case.steps + 2))
    peer = Peer(case, policy, problems)
    ours = Ours(case, policy, problems)
    ours.run(WARM_UP)
    ours.run_without_skipping(1)
    ours.phases = {phase: [] for phase in PHASES}
    seconds: dict[str, list[float]] = {"ours": [], "ours_without_skipping": []}

    def between() -> None:
        if len(seconds["ours"]) < repeats:
            seconds["ours"].append(ours.run(case.steps))
            seconds["ours_without_skipping"].append(ours.run_without_skipping(case.steps))

    load = os.getloadavg()[0]
    seconds["peer"] = peer.run(repeats, WARM_UP, between)
    generate = statistics.median(peer.generate_seconds[WARM_UP:])
    phases = {phase: statistics.median(ours.phases[phase]) for phase in PHASES}
    flops = step_flops(case, policy, busy=1 - _flat_share(problems, case))
    return _result(case, seconds, phases, generate, flops, gemm) | {
        "parameters": sum(p.numel() for p in policy.model.parameters()),
        "trainable": policy.parameters.numel,
        "load_average": [load, os.getloadavg()[0]],
    }


def _flat_share(problems: Any, case: Any) -> float:
    return sum(p.metadata["marks"] == 2**case.G - 1 for p in problems) / len(problems)


def _result(
    case: Any,
    seconds: dict[str, list[float]],
    phases: dict[str, float],
    generate: float,
    flops: dict[str, float],
    gemm: float,
) -> dict[str, Any]:
    median = {side: statistics.median(values) for side, values in seconds.items()}
    return {
        "name": case.name,
        "unit": "seconds a step, median of repeats",
        **median,
        "ratio": median["peer"] / median["ours"],
        "ratio_without_skipping": median["peer"] / median["ours_without_skipping"],
        "ratios_by_repeat": [p / o for p, o in zip(seconds["peer"], seconds["ours"], strict=True)],
        "target": case.target,
        "shape": {"prompts": case.P, "group": case.G, "prompt_tokens": case.L, "new_tokens": case.T},
        "repeats": seconds,
        "steps_a_repeat": case.steps,
        "phases": phases,
        "peer_generate": generate,
        "flops": flops,
        "gemm_fraction": sum(flops.values()) / median["ours"] / gemm,
        "gemm_fraction_by_phase": {k: flops[k] / phases[k] / gemm for k in flops},
    }


def peak_memory(case_name: str) -> dict[str, float]:
    """Peak resident MiB of a fresh process that runs two steps of one side alone."""
    found = {}
    for side in ("ours", "peer"):
        command = [sys.executable, __file__, "--case", case_name, "--memory-of", side]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found[side] = float(output.split()[-1])
    return found


def print_memory(case: Any, side: str) -> None:
    from step.cases import build, make_problems
    from step.ours import Ours
    from step.peer import Peer

    policy = build(case)
    problems = make_problems(case, policy, case.P * (2 + 2 * case.steps))
    if side == "ours":
        Ours(case, policy, problems).run(2)
    else:
        peer = Peer(case, policy, problems)
        del policy.parameters, policy.model
        policy.model = peer.model
        gc.collect()
        peer.run(1, 1, lambda: None)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


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
    print(f"; peak MiB {result.get('peak_mib')}; load {result['load_average'][0]:.1f}", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--case", action="append", help="tiny, 5M, smollm, 135m-config; may be repeated")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--no-memory", action="store_true", help="leave out the runs for peak memory")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--memory-of", choices=("ours", "peer"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    import torch
    from step.arithmetic import gemm_rate
    from step.cases import CASES, DEFAULT

    from hanse.errors import RecipeError
    from hanse.runs.environment import environment

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.memory_of:
        print_memory(CASES[arguments.case[0]], arguments.memory_of)
        return
    gemm, results = gemm_rate(), []
    for name in arguments.case or DEFAULT:
        try:
            result = run_case(CASES[name], arguments.repeats, gemm)
        except RecipeError as error:
            print(f"{name}: skipped: {error}")
            continue
        if not arguments.no_memory:
            result["peak_mib"] = peak_memory(name)
        results.append(result)
        report(result)
    machine = environment() | {"threads": torch.get_num_threads(), "gemm_flops": gemm}
    machine["dtype"] = "bfloat16" if torch.cuda.is_available() else "float32"
    document = {"cases": results, "machine": machine, "differences": DIFFERENCES}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "grpo_step.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
