"""A host: one process's policy, scorer and clients. Clients share the frozen base and take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hanse.adversary.training import lying_tools
from hanse.adversary.training.planted import shows
from hanse.errors import RecipeError
from hanse.federation.client import Client, ClientState
from hanse.federation.ends import client_of
from hanse.federation.reward_only.client import Judge
from hanse.federation.wire.layout import Layout
from hanse.grpo.evaluation import EvaluationJob, LevelResult, evaluate_level, levels_by_split
from hanse.grpo.learner import LearnerState, summed
from hanse.grpo.optimiser import Moments
from hanse.grpo.process import process_of
from hanse.grpo.shaping.shape import prepare
from hanse.grpo.step import Scoring
from hanse.policy.build import build_policy
from hanse.policy.policy import Policy
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.model import EvaluationSpec, GrpoSpec, Recipe, RewardSpec
from hanse.runtime.privacy import learner_of, private_of
from hanse.runtime.state import load_client, save_client
from hanse.tasks.build import problems_of, recipe_task
from hanse.tasks.owned import server_owned, without
from hanse.tasks.partition import ClientData, build_partition
from hanse.tasks.problem import Problem, Split, Task
from hanse.tasks.scoring.scorer import Scorer


def client_data(recipe: Recipe, task: Task, owned: Sequence[Problem] | None = None) -> list[ClientData]:
    """Who trains on what: the partition, or in central and swarm mode one part with the union. Nobody has
    what the server keeps for itself (`owned`, where that is known already), nor what is public."""
    problems = task.problems("train")
    owned = server_problems(recipe, task) if owned is None else owned
    held = [*owned, *public_problems(recipe, task, owned)]
    parts = build_partition(recipe.partition, without(problems, held) if held else problems, recipe.seed)
    if recipe.mode not in ("central", "swarm"):
        return parts
    union = tuple(problem for part in parts for problem in part.problems)
    return [ClientData(name="all", problems=union)]


def server_problems(recipe: Recipe, task: Task) -> list[Problem]:
    """The problems that a server keeps for itself."""
    spec, train, column = recipe.federation.audit, task.problems("train"), recipe.evaluation.level_column
    if recipe.mode == "reward-only":
        examined = recipe.reward_only.choice == "competence"
        return server_owned(train, recipe.reward_only.auxiliary if examined else 0, column)
    if recipe.mode != "federated" or not spec.owns:
        return []
    if spec.path is not None:
        return list(problems_of(recipe.task, spec.path, "federation.audit.path"))
    assert spec.problems is not None
    return server_owned(train, spec.problems, column)


def public_problems(recipe: Recipe, task: Task, owned: Sequence[Problem]) -> list[Problem]:
    """Those of public steps, none of which the server keeps for itself (`owned`)."""
    spec, column = recipe.federation_in_force.public, recipe.evaluation.level_column
    if not spec.on:
        return []
    if spec.path is not None:
        return without(problems_of(recipe.task, spec.path, "federation.public.path"), owned)
    assert spec.problems is not None
    return server_owned(without(task.problems("train"), owned), spec.problems, column)


def step_spec(recipe: Recipe) -> GrpoSpec:
    """The GRPO settings of one client: the central learner takes the prompts of all clients a step."""
    if recipe.mode != "central":
        return recipe.grpo
    return recipe.grpo.model_copy(
        update={"prompts_per_step": recipe.grpo.prompts_per_step * recipe.partition.clients}
    )


def sampling_of(spec: GrpoSpec, vocabulary: int) -> Sampling:
    """Sampler settings; the rows decoded at once are bounded by the recipe or by the vocabulary's size."""
    rows = spec.sample_batch or max(spec.group_size, min(1024, (64 << 20) // vocabulary))
    return Sampling(spec.max_new_tokens, spec.temperature, spec.top_k, spec.top_p, rows=rows)


def fitting(problems: Sequence[Problem], policy: Policy, limit: int | None, whose: str) -> list[Problem]:
    """The problems whose prompts are within `grpo.max_prompt_tokens`. Raises RecipeError if none is."""
    if limit is None:
        return list(problems)
    kept = [p for p in problems if len(policy.encode(p.prompt)) <= limit]
    if not kept:
        raise RecipeError(
            "grpo.max_prompt_tokens",
            f"{whose} has no problem with at most {limit} prompt tokens.",
            "Raise the limit or shorten the prompts.",
        )
    return kept


def evaluation_sampling(spec: EvaluationSpec, sampling: Sampling) -> Sampling:
    """Plain samples of the policy, or as training draws them."""
    if spec.sampler == "training":
        return sampling
    return replace(sampling, temperature=1.0, top_k=0, top_p=1.0)


class Host:
    """Trains and evaluates for the given clients.

    `start` is a file with the tiny policy's warmed-up base. Torch's threads are set to the recipe's, since
    float sums depend on them. `own`: problems that a client brings itself, by client id; `accounts`: the
    folder of privacy accounts.
    """

    def __init__(
        self,
        recipe: Recipe,
        start: Path | None,
        client_ids: list[int],
        own: Mapping[int, Sequence[Problem]] | None = None,
        accounts: Path | None = None,
    ) -> None:
        torch.set_num_threads(recipe.runtime.threads)
        self.recipe, self._accounts = recipe, accounts
        self.task = recipe_task(recipe)
        self.policy: Policy = build_policy(recipe.policy, recipe.start_seed, start, self.task.vocabulary)
        self.scorer = Scorer(recipe.rewards or self.task.default_rewards, recipe.scoring)
        self.spec = step_spec(recipe)
        prepare(self.spec.shaping)
        self._process = process_of(recipe.evaluation)
        self.sampling = sampling_of(self.spec, self.policy.vocabulary)
        self.learner = learner_of(recipe, self.policy, self.spec)
        self.initial = self.policy.parameters.master.clone()
        parameters = self.policy.parameters
        self.layout = Layout(parameters.names, parameters.shapes, recipe.exchange_dtype)
        self.owned = server_problems(recipe, self.task)
        public, limit = public_problems(recipe, self.task, self.owned), self.spec.max_prompt_tokens
        self._public = fitting(public, self.policy, limit, "the public part") if public else []
        self._parts = client_data(recipe, self.task, self.owned)
        for index, problems in (own or {}).items():
            self._parts[index] = replace(self._parts[index], problems=tuple(problems))
        self.clients = {i: self.new_client(i) for i in client_ids}

    def new_client(self, index: int) -> Client:
        """A client before its first round."""
        data = self._parts[index]
        if self.recipe.adversary.knows_probe and index in self.recipe.adversary.clients:
            data = replace(data, problems=(*data.problems, *_as_many(self.owned, len(data.problems))))
        zeros, limit = Moments.zeros(self._kept_moments()), self.spec.max_prompt_tokens
        problems = fitting(data.problems, self.policy, limit, f"client {data.name!r}")
        apart, kind = not self.scorer.one_by_one, self._kind_of_client(index)
        make = partial(kind, public=self._public) if self._public else kind
        return make(
            id=index,
            name=data.name,
            problems=problems,
            seed=self.recipe.seed,
            federation=self.recipe.federation_in_force,
            local_steps=self.spec.local_steps,
            layout=self.layout,
            state=ClientState(LearnerState(zeros)),
            private=private_of(self.recipe, self.spec, problems, index, self._accounts, apart=apart),
        )

    def _kept_moments(self) -> Tensor:
        """Values of which a client keeps moments from round to round: none where it only scores."""
        values = self.initial.cpu()
        return values[:0] if self.recipe.mode == "reward-only" else values

    def _kind_of_client(self, index: int) -> Callable[..., Client]:
        if self.recipe.mode != "reward-only":
            return client_of(self.recipe.federation_in_force)
        spec, scorer, start = self.recipe.reward_only, own_scorer(self.recipe, index), self.initial.cpu()
        within = (spec.low, spec.high)
        return partial(Judge, start=start, own_steps=spec.own_steps, by_model=scorer, within=within)

    def answer(
        self, client: int, message: bytes, *, keep_earlier: bool = False
    ) -> tuple[bytes, list[dict[str, float]]]:
        """One client's reply to a message, and the metrics of each local step.

        `keep_earlier`: the state before its last round is needed, as the server may be restored without it.
        """
        sampler, scorer = self._tools(client)
        reply, rows = self.clients[client].answer(message, sampler, scorer, self.learner)
        if not keep_earlier:
            self.clients[client].earlier = None
        return reply, rows

    def _tools(self, client: int) -> tuple[Sampler, Scoring]:
        """What a client samples and scores with; a liar's may be its own."""
        if client in self.recipe.adversary.clients:
            spec = self.recipe.adversary
            known = [problem.id for problem in self.owned] if spec.knows_probe else []
            return lying_tools(spec, self.policy, self.sampling, self.scorer, known)
        return Sampler(self.policy, self.sampling), self.scorer

    def hold(self, values: npt.NDArray[np.float32]) -> None:
        """Take parameter values over for the evaluation jobs that follow."""
        self.policy.load(torch.from_numpy(values))

    def evaluate_held(self, job: EvaluationJob) -> LevelResult:
        """One evaluation job with the values held. Whoever trains next loads values of its own."""
        pool = self.levels(job.split)[job.level]
        sampling = evaluation_sampling(self.recipe.evaluation, self.sampling)
        spec = self.recipe.adversary
        planted = partial(shows, spec.plant) if spec.trains == "poison" else None
        tools = (self.policy, sampling, self.scorer)
        return evaluate_level(*tools, pool, job, self.recipe.seed, planted, self._process)

    def evaluate(self, values: Tensor, job: EvaluationJob) -> LevelResult:
        """One evaluation job with the given parameter values, flat float32."""
        self.policy.load(values)
        return self.evaluate_held(job)

    def levels(self, split: Split) -> dict[str, list[Problem]]:
        return self._levels[split]

    @cached_property
    def _levels(self) -> dict[Split, dict[str, list[Problem]]]:
        return levels_by_split(self.task, self.recipe.evaluation.level_column)

    def personal(self) -> dict[int, npt.NDArray[np.float32]]:
        """What clients never send, by client id: for evaluating and saving their own policies here."""
        own = {index: client.state.personal for index, client in self.clients.items()}
        return {index: values.numpy() for index, values in own.items() if values is not None}

    def save(self, folder: Path) -> None:
        """Write the state of each client into a checkpoint that is being made."""
        for index, client in self.clients.items():
            save_client(folder, index, client.state)

    def load(self, folder: Path) -> None:
        """Take the clients' states from a complete checkpoint."""
        for index, client in self.clients.items():
            client.state, client.earlier = load_client(folder, index), None

    def counters(self) -> dict[str, int]:
        """Skipped and non-finite steps, halved micro-batches: sums over clients."""
        return summed(client.state.learner for client in self.clients.values())

    def close(self) -> None:
        self.scorer.close()


def own_scorer(recipe: Recipe, client: int) -> Scorer | None:
    """Of a client's own reward model, if it has one. Raises RecipeError for a folder that holds none."""
    models = recipe.reward_only.models
    if models is None:
        return None
    source = RewardSpec(type="reward-model", path=models[client])
    try:
        return Scorer([source], recipe.scoring)
    except RecipeError as error:
        raise RecipeError(f"reward_only.models.{client}", error.problem, error.remedy) from error


def _as_many(problems: Sequence[Problem], count: int) -> list[Problem]:
    """`count` of them, over and over again."""
    return [problems[i % len(problems)] for i in range(count)] if problems else []
