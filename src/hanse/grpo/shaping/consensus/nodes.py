"""Consensus nodes: intermediate results that right completions of a problem share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hanse.recipe.shaping import BuildSpec
from hanse.tasks.problem import Problem
from hanse.tasks.statements import before_answer, equalities, values

_VALUE = "#"


@dataclass(frozen=True)
class Node:
    """An equality under its key, or a number under # and its value. `support`: share of right completions."""

    key: str
    text: str
    support: float


@dataclass(frozen=True)
class Stated:
    """Keys of what a text states, each with how it was first written and its value, if it has one."""

    texts: Mapping[str, str]
    values: Mapping[str, Fraction]


def stated(text: str) -> Stated:
    """Every true or open equality of `text`, and every number."""
    texts, known = dict[str, str](), dict[str, Fraction]()
    for one in equalities(text):
        if one.key is not None:
            texts.setdefault(one.key, one.text)
            if one.value is not None:
                known[one.key] = one.value
    for number in sorted(values(text)):
        key = f"{_VALUE}{number}"
        texts.setdefault(key, str(number))
        known[key] = number
    return Stated(texts, known)


def question_of(problem: Problem) -> str:
    """The text in which a completion finds numbers for nothing."""
    if isinstance(problem.prompt, str):
        return problem.prompt
    return "\n".join(str(message.get("content", "")) for message in problem.prompt)


def consensus(question: str, answer: str | None, right_texts: Sequence[str], spec: BuildSpec) -> list[Node]:
    """What at least `least` of the right completions and the share `support` of them state before their
    final answer; without the question's own and without the answer, which would measure accuracy again.

    A number counts by itself only where no node that is an equality gives it. Nodes with the largest support
    come first; the order of the completions does not matter.
    """
    read = [stated(before_answer(text)) for text in sorted(right_texts)]
    counts = Counter(key for one in read for key in one.texts)
    known = {key: value for one in read for key, value in one.values.items()}
    texts = {key: text for one in reversed(read) for key, text in one.texts.items()}
    enough = max(spec.least, math.ceil(spec.support * len(read) - 1e-9))
    given, final = stated(question), values(answer or "")
    kept = [
        k for k, n in counts.items() if n >= enough and k not in given.texts and known.get(k) not in final
    ]
    by_equality = {known[key] for key in kept if not key.startswith(_VALUE) and key in known}
    kept = [key for key in kept if not (key.startswith(_VALUE) and known[key] in by_equality)]
    ranked = sorted(kept, key=lambda key: (-counts[key], key))[: spec.most]
    return [Node(key, texts[key], counts[key] / len(read)) for key in ranked]
