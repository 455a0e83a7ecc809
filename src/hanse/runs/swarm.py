"""Swarm mode: nodes that exchange completions, some of which may lie."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from hanse.adversary.completions import COMPLETION_ATTACKS, success_of
from hanse.adversary.completions.success import success_rate
from hanse.adversary.lying_node import LyingNode
from hanse.grpo.evaluation import EvaluationJob, LevelResult, evaluate_level, levels_by_split
from hanse.grpo.learner import Learner, summed
from hanse.grpo.process import process_of
from hanse.policy.build import build_policy
from hanse.policy.policy import Policy
from hanse.randomness import derive_seed
from hanse.recipe.model import Recipe
from hanse.recipe.policy import PolicySpec, TinyPolicy
from hanse.runs.folder import read_json
from hanse.runs.models import Model
from hanse.runs.rows import Row
from hanse.runs.start import warmed_start
from hanse.runs.swarm_rows import History, exchange_samples, round_rows
from hanse.runs.training import RoundResult, export_policy
from hanse.runtime.host import evaluation_sampling, fitting, sampling_of
from hanse.runtime.replicas import load_replica, save_replica
from hanse.storage import write_json
from hanse.swarm.defences.chain import build_chain
from hanse.swarm.exchange import LocalExchange
from hanse.swarm.node import Node, run_round
from hanse.swarm.replica import Outcome, Replica
from hanse.tasks.problem import Problem, Split, Task
from hanse.tasks.scoring.scorer import Scorer

_PROBED, _SAMPLES = 8, 24
"""Held-out problems, and completions of each, on which a choosing attack's success is told every round."""


class SwarmTraining:
    """All nodes in this process. Where all hold one policy, one replica stands for them."""

    def __init__(self, recipe: Recipe, start: Path | None, task: Task) -> None:
        torch.set_num_threads(recipe.runtime.threads)
        self.recipe, self.task, self._start = recipe, task, start
        self.scorer = Scorer(recipe.rewards or task.default_rewards, recipe.scoring)
        self.liars = sorted(set(recipe.adversary.nodes))
        self.names = [f"node-{i}" for i in range(recipe.swarm.nodes)]
        self.replicas = self._replicas()
        self.nodes = [self._node(i) for i in range(recipe.swarm.nodes)]
        self.exchange = LocalExchange()
        self._attack = COMPLETION_ATTACKS[recipe.adversary.completions.type]
        self._levels = levels_by_split(task, recipe.evaluation.level_column)
        self.history = History()
        self._process = process_of(recipe.evaluation)

    @property
    def honest(self) -> list[Node]:
        return [node for node in self.nodes if not node.lies]

    def _replicas(self) -> list[Replica]:
        """One for all nodes, or one each, in order of nodes."""
        swarm = self.recipe.swarm
        specs = swarm.policies or [self.recipe.policy]
        count = 1 if swarm.one_replica else swarm.nodes
        policies = [self._policy(specs[i % len(specs)]) for i in range(count)]
        problems = self.task.problems("train")
        for policy in policies:
            problems = fitting(problems, policy, self.recipe.grpo.max_prompt_tokens, "the training split")
        alone = [None if swarm.one_policy else i for i in range(count)]
        made = [self._replica(*pair, problems) for pair in zip(policies, alone, strict=True)]
        return made * swarm.nodes if swarm.one_replica else made

    def _replica(self, policy: Policy, alone: int | None, problems: Sequence[Problem]) -> Replica:
        """`problems`: those that fit all policies, or nodes would draw different ones."""
        recipe = self.recipe
        return Replica(
            recipe.swarm,
            Learner(policy, recipe.grpo, recipe.rounds),
            sampling_of(recipe.grpo, policy.vocabulary),
            self.scorer,
            problems,
            build_chain(
                recipe.swarm,
                worked_sums=recipe.rationales_by_rule,
                exact=policy.computes_in_float32,
            ),
            recipe.seed,
            alone,
        )

    def _policy(self, spec: PolicySpec) -> Policy:
        if spec == self.recipe.policy:
            return build_policy(spec, self.recipe.start_seed, self._start, self.task.vocabulary)
        own = self.recipe.model_copy(update={"policy": spec})
        start = warmed_start(own, spec, self.task) if isinstance(spec, TinyPolicy) else None
        return build_policy(spec, own.start_seed, start, self.task.vocabulary)

    def _node(self, index: int) -> Node:
        if index in self.liars:
            return LyingNode(index, self.replicas[index], self.recipe.adversary.completions, self.liars)
        return Node(index, self.replicas[index])

    def start(self) -> None:
        self.scorer.start()

    def round(self, number: int) -> RoundResult:
        begun = time.perf_counter()
        outcomes, sent = run_round(self.nodes, self.exchange, number)
        views = self._honest_views(outcomes)
        attack = self.recipe.adversary.completions
        steps, row = round_rows(number, views, self.liars, self.names, attack)
        row |= self._probe(number)
        row |= {"comm/bytes_up": sent, "comm/bytes_down": sent * (len(self.nodes) - 1)}
        row["time/round"] = time.perf_counter() - begun
        self.history.add(row)
        refused = {f"{self.names[node]}: {why}": None for _, o in views for node, why in o.refused.items()}
        first = views[0][1]
        return RoundResult(
            steps,
            row,
            list(refused),
            {self.names[views[0][0]]: first.errors} if first.errors else {},
            exchange_samples(number, first, self.liars, self.names, attack),
            sent,
            row["comm/bytes_down"],
        )

    def _probe(self, number: int) -> Row:
        """Success of an attack that chooses its problems, on held-out ones of that kind: there are few such
        among an honest node's."""
        spec, choose = self.recipe.adversary.completions, self._attack.choose
        succeeded = success_of(spec)
        if choose is None or succeeded is None:
            return {}
        chosen = choose(spec, self.task.problems("held_out"), _PROBED, self.recipe.seed)
        seeds = [derive_seed(self.recipe.seed, "probe", number, problem.id) for problem in chosen]
        replica = self.honest[0].replica
        groups = replica.sampler.sample(chosen, _SAMPLES, seeds)
        texts = replica.policy.decode([ids for group in groups for ids in group.token_ids_G()])
        problems = [problem for problem in chosen for _ in range(_SAMPLES)]
        rate, counted = success_rate(problems, texts, succeeded)
        return {"swarm/attack_success": rate, "swarm/attack_counted": counted} if counted else {}

    def _honest_views(self, outcomes: Mapping[int, Outcome]) -> list[tuple[int, Outcome]]:
        """What honest nodes made of the round: each, or where all judge alike, one for all."""
        honest = {id(node.replica) for node in self.honest}
        views = [(i, o) for i, o in outcomes.items() if id(self.nodes[i].replica) in honest]
        return views[:1] if self.recipe.swarm.one_policy else views

    def models(self) -> list[Model]:
        """Of honest nodes: one where all hold the same."""
        nodes = self.honest
        if self.recipe.swarm.one_policy:
            return [Model(nodes[0].replica.policy.parameters.master.clone())]
        return [Model(n.replica.policy.parameters.master.clone(), self.names[n.id]) for n in nodes]

    def policies(self) -> list[Policy]:
        return [replica.policy for replica in dict.fromkeys(self.replicas)]

    def policy(self, model: Model) -> Policy:
        nodes = self.honest
        node = nodes[0] if model.name is None else self.nodes[self.names.index(model.name)]
        policy = node.replica.policy
        if not torch.equal(policy.parameters.master, model.values):
            policy.load(model.values)
        return policy

    def evaluate(self, model: Model, jobs: Sequence[EvaluationJob]) -> list[LevelResult]:
        policy = self.policy(model)
        sampling = evaluation_sampling(
            self.recipe.evaluation, sampling_of(self.recipe.grpo, policy.vocabulary)
        )
        return [
            evaluate_level(
                policy,
                sampling,
                self.scorer,
                self.levels(job.split)[job.level],
                job,
                self.recipe.seed,
                process=self._process,
            )
            for job in jobs
        ]

    def export(self, model: Model, folder: Path, card: str) -> str:
        return export_policy(self.policy(model), folder, card)

    def levels(self, split: Split) -> dict[str, list[Problem]]:
        return self._levels[split]

    def save(self, folder: Path) -> None:
        for i, replica in enumerate(dict.fromkeys(self.replicas)):
            save_replica(folder / f"replica-{i:04d}.safetensors", replica)
        lies = {str(node.id): node.memory for node in self.nodes if isinstance(node, LyingNode)}
        write_json(folder / "swarm.json", {"history": self.history.to_state(), "lies": lies})

    def load(self, folder: Path) -> None:
        for i, replica in enumerate(dict.fromkeys(self.replicas)):
            load_replica(folder / f"replica-{i:04d}.safetensors", replica)
        state = read_json(folder / "swarm.json")
        self.history = History.from_state(state["history"])
        for node in self.nodes:
            if isinstance(node, LyingNode):
                node.memory = dict(state["lies"].get(str(node.id), {}))

    def counters(self) -> dict[str, int]:
        counted = summed(replica.learner.state for replica in dict.fromkeys(self.replicas))
        return {"refused_bundles": self.history.refused, **counted}

    def summary(self) -> Row:
        return {"swarm": self.history.summary()}

    def close(self) -> None:
        self.scorer.close()
