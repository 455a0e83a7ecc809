"""Nodes built from rollouts of a policy that does not change, going on where a stop left off."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hanse.grpo.shaping.consensus.nodes import consensus, question_of
from hanse.grpo.shaping.consensus.store import Found
from hanse.grpo.step import Scoring
from hanse.policy.sampler import Sampler
from hanse.randomness import derive_seed
from hanse.recipe.shaping import BuildSpec
from hanse.storage import write_text
from hanse.tasks.problem import Problem

_AT_ONCE = 32
"""Problems between two lines of the journal."""


@dataclass(frozen=True)
class Source:
    """What rollouts come from. Each problem has its own stream, whatever is built beside it."""

    sampler: Sampler
    scorer: Scoring
    seed: int

    def found(self, problems: Sequence[Problem], spec: BuildSpec) -> dict[str, Found]:
        """Nodes of some problems: of what the first reward function gives full marks."""
        seeds = [derive_seed(self.seed, "consensus", problem.id) for problem in problems]
        groups = self.sampler.sample(problems, spec.rollouts, seeds)
        ids = [row for group in groups for row in group.token_ids_G()]
        texts = self.sampler.policy.decode(ids)
        repeated = [problem for problem in problems for _ in range(spec.rollouts)]
        scores = self.scorer.score(repeated, texts, ids, group_size=spec.rollouts)
        right = ((scores.values_FN[0] >= 1) & (scores.totals_N == scores.totals_N)).tolist()
        made = {}
        for p, problem in enumerate(problems):
            rows = range(p * spec.rollouts, (p + 1) * spec.rollouts)
            good = [texts[i] for i in rows if right[i]]
            nodes = consensus(question_of(problem), problem.answer, good, spec)
            made[problem.id] = Found(len(good), spec.rollouts, tuple(nodes))
        return made


class Journal:
    """What is built so far, a line a problem below a line that says how; a torn last line does not count."""

    def __init__(self, path: Path, made: Mapping[str, Any]) -> None:
        self.path, self._head = path, json.dumps(dict(made), sort_keys=True)
        self.found = self._read()
        lines = [self._head, *(self._line(name, one) for name, one in self.found.items())]
        write_text(path, "".join(f"{line}\n" for line in lines))

    def add(self, found: Mapping[str, Found]) -> None:
        """Append, and have it on the disk."""
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{self._line(name, one)}\n" for name, one in found.items())
            file.flush()
            os.fsync(file.fileno())
        self.found |= found

    def _line(self, name: str, one: Found) -> str:
        return json.dumps({"id": name} | one.to_json())

    def _read(self) -> dict[str, Found]:
        """The sound lines of a journal with the same head; nothing of any other."""
        try:
            head, *lines = self.path.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            return {}
        found = dict[str, Found]()
        for line in lines if head == self._head else []:
            try:
                row = json.loads(line)
                found[str(row["id"])] = Found.from_json(row)
            except (ValueError, TypeError, KeyError):
                break
        return found


def build(
    problems: Sequence[Problem],
    source: Source,
    spec: BuildSpec,
    journal: Journal,
    say: Callable[[str], None],
) -> dict[str, Found]:
    """Nodes of all problems, those of the journal among them. `say`: told after every few problems."""
    left = [problem for problem in problems if problem.id not in journal.found]
    if len(left) < len(problems):
        say(f"going on after {len(problems) - len(left)} problems")
    for start in range(0, len(left), _AT_ONCE):
        journal.add(source.found(left[start : start + _AT_ONCE], spec))
        done = journal.found.values()
        with_nodes = sum(bool(one.nodes) for one in done)
        say(f"{len(done)} of {len(problems)} problems, {with_nodes} with nodes")
    return {problem.id: journal.found[problem.id] for problem in problems}
