"""A judge for worked sums that needs no model: it reads the rationale and does the sums."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from hanse.recipe.swarm import StepsDefence
from hanse.swarm.defences.base import Finding, View
from hanse.tasks.problem import Prompt

_WHOLE = r"(-?(?:0|[1-9][0-9]*))"
_FORM = re.compile(rf"\s*<think>([^<>]*)</think>\s*<answer>\s*{_WHOLE}\s*</answer>\s*", re.ASCII)
_STEP = re.compile(rf"\s*{_WHOLE}\s*([-+*])\s*{_WHOLE}\s*=\s*{_WHOLE}\s*", re.ASCII)
_NUMBER = re.compile(r"[0-9]+", re.ASCII)
_LONGEST_NUMBER = 18
"""Digits; Python's integers have no bound of their own."""


def steps(spec: StepsDefence, view: View, accepted_N: Tensor) -> Finding:
    """Judges what is rewarded: the rest gains nothing, and honest wrong answers must stay in the group.
    Score: 1 for a rationale that is not in order."""
    asked_N = accepted_N if spec.of == "all" else accepted_N & view.rewarded_N
    bad = [
        asked and not in_order(text, problem.prompt)
        for asked, text, problem in zip(asked_N.tolist(), view.texts_N, view.problems_N, strict=True)
    ]
    rejected = torch.tensor(bad, dtype=torch.bool)
    return Finding(rejected, rejected.float())


def in_order(text: str, prompt: Prompt) -> bool:
    """`<think> a + b = s ; s + c = t </think> <answer> t </answer>` and nothing else: every step is true,
    every operand is a number of the problem or the result of an earlier step, and the last step gives the
    answer."""
    form = _FORM.fullmatch(text)
    if form is None:
        return False
    known = {int(x) for x in _NUMBER.findall(_plain(prompt)) if len(x) <= _LONGEST_NUMBER}
    result = None
    for written in form[1].split(";"):
        step = _STEP.fullmatch(written)
        if step is None or any(len(step[i]) > _LONGEST_NUMBER for i in (1, 3, 4)):
            return False
        a, b, result = int(step[1]), int(step[3]), int(step[4])
        if a not in known or b not in known or result != _value(a, step[2], b):
            return False
        known.add(result)
    return len(form[2]) <= _LONGEST_NUMBER and result == int(form[2])


def _value(a: int, sign: str, b: int) -> int:
    return a + b if sign == "+" else a - b if sign == "-" else a * b


def _plain(prompt: Prompt) -> str:
    """The last message of a chat: the problem."""
    return prompt if isinstance(prompt, str) else prompt[-1]["content"]
