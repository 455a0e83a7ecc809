"""An attack on private steps: is one problem among the client's? Its success is a lower bound of epsilon.

    python benchmarks/privacy_audit.py [--trials 400] [--out benchmarks/results]

The worst case that the rules allow: all other problems are solved, so the canary's gradient is the only one,
and the attacker sees every noised sum and knows what the canary would have added to each; only sampling and
noise are hidden from it. Each trial is three private steps of a tiny policy with a key of its own, with or
without the canary. Half of the trials choose the threshold, the other half is counted (Clopper and Pearson,
95 %). The bound has to stay below epsilon, and to be large where there is no noise: else the attack is too
weak to show anything.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hanse.policy.sampler import Sampler, Sampling
from hanse.policy.tiny import tiny_policy
from hanse.privacy.account import Terms
from hanse.privacy.accountant import calibrate
from hanse.privacy.audit import lower_bound
from hanse.privacy.learner import PrivateLearner
from hanse.privacy.noise import Stream, key_from_seed, new_key
from hanse.privacy.step import Asked, private_step
from hanse.recipe.model import GrpoSpec, TinyPolicy
from hanse.recipe.privacy import PrivacySpec
from hanse.tasks.arithmetic import VOCABULARY
from hanse.tasks.problem import Problem
from hanse.tasks.scoring.scores import Scores

STEPS, DELTA, CLIP, EXPECTED = 3, 1e-3, 1e-3, 2
CANARY = Problem("canary", "123+456=", "975")
OTHERS = [Problem(f"p{i}", f"{i}{i}{i}+111=", "") for i in range(3)]
RATE = EXPECTED / (len(OTHERS) + 1)
LEVELS = (
    ("1", 1.0, 1.0),
    ("8", 8.0, 1.0),
    ("infinite", math.inf, 1.0),
    ("1, with a tenth of its noise", 1.0, 0.1),
)
SPEC = GrpoSpec(group_size=8, prompts_per_step=EXPECTED, max_new_tokens=3, objective="dr_grpo", scale="none")


def digits(text: str) -> float:
    """From 0 to 1."""
    return sum(int(c) for c in text if c.isdigit()) / 27


class CanaryRewards:
    """The canary's completions are worth their digits; all others are right."""

    def score(
        self, problems_N: Any, completions_N: Any, ids: Any = None, *, group_size: Any = None
    ) -> Scores:
        pairs = zip(problems_N, completions_N, strict=True)
        values = np.array([digits(text) if p is CANARY else 1.0 for p, text in pairs])
        return Scores(("canary",), values, values[None])


class Eavesdropper:
    """Keeps the noised sum of each step."""

    def __init__(self) -> None:
        self.heard: list[Tensor] = []

    def gradient(self, grad: Tensor, master: Tensor) -> None:
        self.heard.append(grad.clone())

    def stepped(self, master: Tensor, lr: float) -> None:
        """Nothing."""


class Attack:
    """Trials at one noise. `seeded`: with keys that are always the same, for tests;
    `share`: of its noise that is there, as a broken mechanism has."""

    def __init__(self, noise: float, *, seeded: bool = False, share: float = 1.0) -> None:
        shape = TinyPolicy(hidden=16, layers=1, heads=2, intermediate=16)
        policy = tiny_policy(shape, VOCABULARY, 0)
        self.learner, self.seeded = PrivateLearner(policy, SPEC, 10**6), seeded
        self.sampler, self.start = Sampler(policy, Sampling(3)), policy.parameters.master.clone()
        self.terms = Terms(noise * share, RATE, DELTA, "prv", None, seeded)
        self.noise = max(noise, 1e-3)

    def _run(self, problems: list[Problem], terms: Terms, key: bytes) -> list[Tensor]:
        heard = Eavesdropper()
        self.learner.corrections = (heard,)
        spec = PrivacySpec(enabled=True, noise=terms.noise, clip=CLIP)
        asked = Asked(spec, terms, EXPECTED, SPEC.group_size, apart=False)
        for step in range(STEPS):
            self.learner.policy.load(self.start)
            tools = (self.sampler, CanaryRewards(), self.learner)
            private_step(problems, *tools, asked, Stream(key).sub(step))
        return heard.heard

    def score(self, present: bool, number: int) -> float:
        """Log of how much likelier what was heard is with the canary than without."""
        key = key_from_seed(7, number) if self.seeded else new_key()
        heard = self._run([*OTHERS, CANARY] if present else OTHERS, self.terms, key)
        shares = self._run([CANARY], Terms(0.0, 1.0, DELTA, "prv", None, True), key)
        total = 0.0
        for noised, share in zip(heard, shares, strict=True):
            unit = EXPECTED / CLIP
            along, length = (
                float(noised.double() @ share.double()) * unit**2,
                float(share.double().norm()) * unit,
            )
            gain = (along - length**2 / 2) / self.noise**2
            total += float(np.logaddexp(math.log(1 - RATE), math.log(RATE) + gain))
        return total

    def bound(self, trials: int) -> float:
        """The 95 % lower bound from so many trials on either side."""
        inside = [self.score(True, 2 * i) for i in range(trials)]
        outside = [self.score(False, 2 * i + 1) for i in range(trials)]
        return lower_bound(inside, outside, DELTA)


def run_case(name: str, epsilon: float, share: float, trials: int) -> dict[str, Any]:
    """The audit of steps with this epsilon, of whose noise only a share is there."""
    begun = time.process_time()
    noise = 0.0 if math.isinf(epsilon) else calibrate("prv", epsilon, DELTA, RATE, STEPS)
    bound = Attack(noise, share=share).bound(trials)
    seconds = time.process_time() - begun
    return {
        "epsilon": name,
        "noise": noise * share,
        "bound": bound,
        "trials": trials,
        "cpu_seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cases = []
    for name, epsilon, share in LEVELS:
        cases.append(run_case(name, epsilon, share, arguments.trials))
        told = cases[-1]
        print(f"epsilon {name}: noise {told['noise']:.3f}, 95 % lower bound {told['bound']:.2f}", flush=True)
    from hanse.runs.environment import environment

    settings = {"steps": STEPS, "delta": DELTA, "rate": RATE}
    arguments.out.mkdir(parents=True, exist_ok=True)
    document = {"cases": cases, "settings": settings, "machine": environment()}
    (arguments.out / "privacy_audit.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
