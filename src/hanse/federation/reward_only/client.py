"""A client that scores: by its own truth where it has it, else by what its own model would answer, or by its
own reward model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from torch import Tensor

from hanse.federation.client import Client, Rows
from hanse.federation.draw import Draw
from hanse.federation.reward_only.messages import Answers, Candidates, FloatArray, Judgement, Quiz
from hanse.federation.wire.frame import WireError, kind_of
from hanse.grpo.learner import Learner, LearnerState
from hanse.grpo.optimiser import Moments
from hanse.grpo.step import Scoring, grpo_step
from hanse.policy.sampler import Sampler
from hanse.tasks.answers import stated_answer
from hanse.tasks.problem import Problem, Prompt

OWN_STREAM = 1 << 20
"""Added to client ids: draws of own training, apart from the server's."""


@dataclass
class Judge(Client):
    """Answers a quiz, and scores candidates. Its model is `start` after `own_steps` on its own problems, and
    stays so; `state.personal` holds it from the first message on, if it takes steps. With a reward model
    (`by_model`) it has no other, and a score s of it counts as low + (high - low) / (1 + exp(-s)), the bounds
    being `within`."""

    start: Tensor | None = None
    own_steps: int = 0
    by_model: Scoring | None = None
    within: tuple[float, float] = (0.0, 1.0)

    def answer(self, data: bytes, sampler: Sampler, scorer: Scoring, learner: Learner) -> tuple[bytes, Rows]:
        """The reply to a Quiz or Candidates, and metrics of own training where that came first. Raises
        WireError for anything else."""
        kind = kind_of(data)
        rows = self._ready(sampler, scorer, learner) if self.by_model is None else []
        if kind == "quiz" and self.by_model is None:
            quiz = Quiz.from_bytes(data)
            return Answers(quiz.number, self.id, tuple(self._answers(quiz.prompts, sampler))).to_bytes(), rows
        if kind == "candidates":
            return self._judged(Candidates.from_bytes(data), sampler, scorer).to_bytes(), rows
        raise WireError("neither a quiz nor candidates")

    def _ready(self, sampler: Sampler, scorer: Scoring, learner: Learner) -> Rows:
        """Load the own model, made first where there is none yet."""
        assert self.start is not None
        learner.policy.load(self.start if self.state.personal is None else self.state.personal)
        if self.state.personal is not None or not self.own_steps:
            return []
        learner.state = LearnerState(Moments.zeros(learner.policy.parameters.master))
        draw = Draw(self.problems, self.seed, OWN_STREAM + self.id, 0)
        rows = [grpo_step(draw, sampler, scorer, learner).metrics for _ in range(self.own_steps)]
        own = learner.policy.parameters.master.to("cpu", copy=True)
        self.state = replace(self.state, personal=own, cursor=draw.cursor)
        return rows

    def _answers(self, prompts: Sequence[Prompt], sampler: Sampler) -> list[str]:
        """What the own model most likely says."""
        greedy = Sampler(sampler.policy, replace(sampler.sampling, greedy=True))
        problems = [Problem(f"question-{i}", prompt) for i, prompt in enumerate(prompts)]
        groups = greedy.sample(problems, 1, [0] * len(problems))
        return sampler.policy.decode([row for group in groups for row in group.token_ids_G()])

    def _judged(self, asked: Candidates, sampler: Sampler, scorer: Scoring) -> Judgement:
        scores = np.full((len(asked.prompts), len(asked.texts_PG[0])), np.nan)
        own = {i: self._owned[repr(p)] for i, p in enumerate(asked.prompts) if repr(p) in self._owned}
        foreign = {i: p for i, p in enumerate(asked.prompts) if i not in own}
        if self.by_model is None:
            _fill(scores, own | self._guessed(foreign, sampler), asked, scorer)
            return Judgement(asked.number, self.id, scores.reshape(-1))
        _fill(scores, own, asked, scorer)
        _fill(scores, {i: Problem(f"question-{i}", p) for i, p in foreign.items()}, asked, self.by_model)
        scores[list(foreign)] = squashed(scores[list(foreign)], *self.within)
        return Judgement(asked.number, self.id, scores.reshape(-1))

    def _guessed(self, foreign: Mapping[int, Prompt], sampler: Sampler) -> dict[int, Problem]:
        """Questions with the own model's final answer, where it gives one."""
        said = self._answers(list(foreign.values()), sampler) if foreign else []
        answers = {i: stated_answer(text) for i, text in zip(foreign, said, strict=True)}
        return {i: Problem(f"question-{i}", foreign[i], answer) for i, answer in answers.items() if answer}

    @cached_property
    def _owned(self) -> dict[str, Problem]:
        return {repr(_frozen(problem.prompt)): problem for problem in self.problems if problem.answer}


def squashed(scores: FloatArray, low: float, high: float) -> FloatArray:
    """Any number into low to high, 0 into their middle; NaN stays."""
    return low + (high - low) / (1 + np.exp(-np.clip(scores, -60, 60)))


def _fill(scores_PG: FloatArray, problems: Mapping[int, Problem], asked: Candidates, scorer: Scoring) -> None:
    """Write the scores of the candidates of `problems`, which are told by their places."""
    if not problems:
        return
    G = scores_PG.shape[1]
    repeated = [problem for problem in problems.values() for _ in range(G)]
    texts = [text for place in problems for text in asked.texts_PG[place]]
    scores_PG[list(problems)] = scorer.score(repeated, texts, None, group_size=G).totals_N.reshape(-1, G)


def _frozen(prompt: Prompt) -> Prompt:
    return prompt if isinstance(prompt, str) else tuple(dict(message) for message in prompt)
