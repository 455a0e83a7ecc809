"""A private GRPO step against a plain one: same policy, prompts, rewards and batch.

    python benchmarks/private_step.py [--case tiny] [--repeats 9] [--threads 1] [--out benchmarks/results]

The private step draws all problems, clips each group's gradient and adds noise. The two take turns, repeat by
repeat. Ratios are of this process's CPU seconds, which other processes disturb less than the wall clock;
seconds on the clock stand beside them. `train`: of the learner alone, without sampling and scoring.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
TARGET = 1.3
STEPS = {"tiny": 10, "5M": 2, "smollm": 1}


def sides(case: Any) -> tuple[dict[str, Callable[[], None]], dict[str, int]]:
    """What to time, by name, and facts of the case."""
    from step.cases import build, make_problems
    from step.ours import Ours

    from hanse.policy.rollout import Group
    from hanse.privacy.account import Account, Terms
    from hanse.privacy.learner import PrivateLearner
    from hanse.privacy.step import Asked, private_step
    from hanse.recipe.privacy import PrivacySpec

    policy = build(case)
    problems = make_problems(case, policy, 4 * case.P)
    plain = Ours(case, policy, problems)
    learner = PrivateLearner(policy, plain.learner.spec, total_steps=10**6)
    spec = PrivacySpec(enabled=True, noise=1.0, clip=0.1, key="seed")
    terms = Terms(1.0, 1.0, 1e-5, "rdp", None, True)
    asked = Asked(spec, terms, case.P, case.G, apart=False)
    stream, count = Account.in_memory(terms, 0, 0).stream, [0]

    def private() -> None:
        count[0] += 1
        start = count[0] * case.P % (3 * case.P)
        batch = problems[start : start + case.P]
        private_step(batch, plain.sampler, plain.scorer, learner, asked, stream.sub(count[0]))

    groups: list[Group] = []
    step = plain.learner.step
    plain.learner.step = lambda made: (groups.clear(), groups.extend(made), step(made))[-1]  # type: ignore
    plain.run(1)
    plain.learner.step = step  # type: ignore[method-assign]
    own = stream.sub("train")
    timed = {
        "plain": lambda: void(plain.run(1)),
        "private": private,
        "plain train": lambda: void(step(groups)),
        "private train": lambda: void(learner.private_step(groups, asked.query, own)),
    }
    return timed, {"parameters": policy.parameters.numel}


def void(_: Any) -> None:
    """For functions that are called for what they do."""


def run_case(case: Any, repeats: int) -> dict[str, Any]:
    timed, facts = sides(case)
    cpu: dict[str, list[float]] = {name: [] for name in timed}
    wall: dict[str, list[float]] = {name: [] for name in timed}
    steps = STEPS.get(case.name, 1)
    for repeat in range(repeats + 1):
        for name, work in timed.items():
            a, b = time.process_time(), time.perf_counter()
            for _ in range(steps):
                work()
            if repeat:  # the first one warms up
                cpu[name].append((time.process_time() - a) / steps)
                wall[name].append((time.perf_counter() - b) / steps)
    median = {name: statistics.median(values) for name, values in cpu.items()}
    ratios = [p / q for p, q in zip(cpu["private"], cpu["plain"], strict=True)]
    return {
        "name": case.name,
        "unit": "CPU seconds a step, median of repeats",
        "ours": median["private"],
        "peer": median["plain"],
        "ratio": median["private"] / median["plain"],
        "ratio_train": median["private train"] / median["plain train"],
        "target": TARGET,
        "ratios_by_repeat": ratios,
        "seconds": {name: statistics.median(values) for name, values in wall.items()},
        "cpu_seconds": cpu,
        "shape": {"prompts": case.P, "group": case.G, "prompt_tokens": case.L, "new_tokens": case.T},
        **facts,
    }


def report(result: dict[str, Any]) -> None:
    low, high = min(result["ratios_by_repeat"]), max(result["ratios_by_repeat"])
    print(f"{result['name']}: {result['parameters'] / 1e6:.2f} M parameters, {result['shape']}")
    print(f"  private {1e3 * result['ours']:.1f} ms, plain {1e3 * result['peer']:.1f} ms of CPU a step")
    print(f"  ratio {result['ratio']:.2f} ({low:.2f} … {high:.2f}; target {TARGET:g})", end="")
    print(f", of the learner alone {result['ratio_train']:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--case", action="append", help="tiny, 5M, smollm; may be repeated")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    import torch
    from step.cases import CASES

    from hanse.runs.environment import environment

    torch.set_num_threads(arguments.threads)
    results = []
    for name in arguments.case or ["tiny", "5M"]:
        results.append(run_case(CASES[name], arguments.repeats))
        report(results[-1])
    document = {"cases": results, "machine": environment() | {"torch threads": arguments.threads}}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "private_step.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
