"""A client that scores: by its own truth where it has it, else by what its own model would answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from torch import Tensor

from hanse.federation.client import Client, Rows
from hanse.federation.draw import Draw
from hanse.federation.reward_only.messages import Answers, Candidates, Judgement, Quiz
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
    stays so; `state.personal` holds it from the first message on."""

    start: Tensor | None = None
    own_steps: int = 0

    def answer(self, data: bytes, sampler: Sampler, scorer: Scoring, learner: Learner) -> tuple[bytes, Rows]:
        """The reply to a Quiz or Candidates, and metrics of own training where that came first. Raises
        WireError for anything else."""
        kind = kind_of(data)
        rows = self._ready(sampler, scorer, learner)
        if kind == "quiz":
            quiz = Quiz.from_bytes(data)
            return Answers(quiz.number, self.id, tuple(self._answers(quiz.prompts, sampler))).to_bytes(), rows
        if kind == "candidates":
            return self._judged(Candidates.from_bytes(data), sampler, scorer).to_bytes(), rows
        raise WireError("neither a quiz nor candidates")

    def _ready(self, sampler: Sampler, scorer: Scoring, learner: Learner) -> Rows:
        """Load the own model, made first where there is none yet."""
        if self.state.personal is not None:
            learner.policy.load(self.state.personal)
            return []
        assert self.start is not None
        learner.policy.load(self.start)
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
        texts, G = [text for row in asked.texts_PG for text in row], len(asked.texts_PG[0])
        problems = self._with_answers(asked.prompts, sampler)
        scores = np.full(asked.count, np.nan)
        known = [p for p, problem in enumerate(problems) if problem.answer]
        rows = [p * G + g for p in known for g in range(G)]
        if rows:
            repeated, said = [problems[row // G] for row in rows], [texts[row] for row in rows]
            scores[rows] = scorer.score(repeated, said, None, group_size=G).totals_N
        return Judgement(asked.number, self.id, scores)

    def _with_answers(self, prompts: Sequence[Prompt], sampler: Sampler) -> list[Problem]:
        """Own problems where they are, else questions with the own model's final answer, "" for none."""
        foreign = [i for i, prompt in enumerate(prompts) if repr(prompt) not in self._owned]
        said = self._answers([prompts[i] for i in foreign], sampler) if foreign else []
        guessed = dict(zip(foreign, said, strict=True))
        return [
            Problem(f"question-{i}", prompt, stated_answer(guessed[i]))
            if i in guessed
            else self._owned[repr(prompt)]
            for i, prompt in enumerate(prompts)
        ]

    @cached_property
    def _owned(self) -> dict[str, Problem]:
        return {repr(_frozen(problem.prompt)): problem for problem in self.problems if problem.answer}


def _frozen(prompt: Prompt) -> Prompt:
    return prompt if isinstance(prompt, str) else tuple(dict(message) for message in prompt)
