"""Made-up completions and clients of latent groups who prefer opposite ones, for the tiny policy.

A completion is a handful of words: formal and casual ones of a large vocabulary, neutral ones that only make
it longer, perhaps the step that leads to the answer, and the answer. What a group likes is a sign for each
attribute. All groups judge by the same attributes: what tells a formal word from a casual one can be learnt
from everybody, which of them is better cannot.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from hanse.randomness import derive_seed, generator
from hanse.recipe.preferences import Attribute, SyntheticPreferencesTask
from hanse.recipe.tasks import LessonsSpec
from hanse.tasks.lessons import Lessons
from hanse.tasks.listed import ListedTask
from hanse.tasks.problem import Problem, Split
from hanse.tasks.vocabulary import Vocabulary

_NEUTRAL = 8
_TONE_WORDS, _NEUTRAL_WORDS = (2, 5), (0, 7)
"""How many of them a completion has: from the first number to below the second."""
_LEAST = 0.25
"""Least difference of a pair's utilities: nobody is asked about equals."""


@dataclass(frozen=True)
class Words:
    """A completion and its attributes, each between about -1 and 1."""

    text: str
    attributes: dict[Attribute, float]


def build_synthetic(spec: SyntheticPreferencesTask) -> ListedTask:
    """Pairs of each client: the first `pairs` to train on, others to validate, and held-out ones.

    Metadata: `chosen`, `rejected`, `client` (a number from 0), `group` (hidden from training).
    """
    seed = spec.seed or 0
    splits: dict[Split, list[Problem]] = {"train": [], "validation": [], "held_out": []}
    for client, group in enumerate(owners(spec)):
        for split, problem in _pairs(spec, seed, client, group):
            splits[split].append(problem)
    listed = {split: tuple(problems) for split, problems in splits.items()}
    return ListedTask("synthetic-preferences", (), listed, vocabulary(spec), _untaught(spec, listed["train"]))


def owners(spec: SyntheticPreferencesTask) -> list[int]:
    """The group of each client."""
    return [group for group, count in enumerate(spec.clients) for _ in range(count)]


def tastes(spec: SyntheticPreferencesTask) -> list[dict[Attribute, int]]:
    """The sign of each attribute, for each group: those of groups 2i and 2i + 1 are opposed."""
    half = product((1, -1), repeat=len(spec.attributes) - 1)
    rows = [signs for rest in half for signs in ((1, *rest), (-1, *(-sign for sign in rest)))]
    return [dict(zip(spec.attributes, signs, strict=True)) for signs in rows[: len(spec.clients)]]


def vocabulary(spec: SyntheticPreferencesTask) -> Vocabulary:
    digits = [str(n) for n in range(19)]
    neutral = [f"word{i}" for i in range(_NEUTRAL)]
    return Vocabulary((*digits, "+", "=", "and", "make", "so", *neutral, *_tone_words(spec.words)), "words")


def tone_of(word: str) -> int:
    """1 for formal words, -1 for casual ones, 0 for others."""
    return (word.startswith("formal")) - (word.startswith("casual"))


@cache
def _tone_words(count: int) -> tuple[str, ...]:
    return tuple(f"{'casual' if i % 2 else 'formal'}{i // 2}" for i in range(count))


def _pairs(
    spec: SyntheticPreferencesTask, seed: int, client: int, group: int
) -> Iterator[tuple[Split, Problem]]:
    taste = tastes(spec)[group]
    sizes: dict[Split, int] = {
        "train": spec.pairs,
        "validation": spec.validation_pairs,
        "held_out": spec.held_out_pairs,
    }
    for split, count in sizes.items():
        for i in range(count):
            draw = generator(seed, "preferences", client, split, i)
            a, b = int(draw.integers(10)), int(draw.integers(10))
            chosen, rejected = _labelled(spec, taste, a, b, draw)
            labels = {"chosen": chosen.text, "rejected": rejected.text, "client": client, "group": group}
            yield split, Problem(f"{client}-{split}-{i}", f"{a} + {b} =", None, labels)


def _labelled(
    spec: SyntheticPreferencesTask, taste: dict[Attribute, int], a: int, b: int, draw: np.random.Generator
) -> tuple[Words, Words]:
    """Two completions, the preferred one first, or the other way round where the label is wrong."""
    while True:
        first, second = _completion(spec, a, b, draw), _completion(spec, a, b, draw)
        gap = utility(first, taste) - utility(second, taste)
        if abs(gap) >= _LEAST:
            break
    wrong = bool(draw.random() < spec.noise)
    return (first, second) if (gap > 0) != wrong else (second, first)


def utility(words: Words, taste: dict[Attribute, int]) -> float:
    """What somebody with this taste makes of a completion."""
    return math.fsum(sign * words.attributes[name] for name, sign in taste.items())


def _completion(spec: SyntheticPreferencesTask, a: int, b: int, draw: np.random.Generator) -> Words:
    tones, neutrals = int(draw.integers(*_TONE_WORDS)), int(draw.integers(*_NEUTRAL_WORDS))
    words = [_tone_words(spec.words)[i] for i in draw.integers(spec.words, size=tones).tolist()]
    tone = sum(map(tone_of, words)) / tones
    words += [f"word{i}" for i in draw.integers(_NEUTRAL, size=neutrals).tolist()]
    words = [words[i] for i in draw.permutation(len(words)).tolist()]
    worked = bool(draw.random() < 0.5)
    steps = [str(a), "and", str(b), "make"] if worked else ["so"]
    text = " ".join([*words, *steps, str(a + b)])
    length = 2 * neutrals / (_NEUTRAL_WORDS[1] - 1) - 1
    return Words(text, {"tone": tone, "length": length, "worked": 1.0 if worked else -1.0})


def _untaught(spec: SyntheticPreferencesTask, train: Sequence[Problem]) -> Lessons:
    """The tiny policy starts from random weights: it is not taught what nobody agrees on."""
    words = "\n".join(vocabulary(spec).tokens)
    return Lessons(
        spec=LessonsSpec(max_steps=0),
        row=lambda draw: ("", ""),
        right=lambda problem, text: True,
        probes=train[:1],
        longest=1,
        digest=hashlib.sha256(words.encode()).hexdigest(),
    )


def data_seed(spec: SyntheticPreferencesTask, seed: int) -> SyntheticPreferencesTask:
    """The task with the seed that it draws with: its own, or one that belongs to the recipe's."""
    if spec.seed is not None:
        return spec
    return spec.model_copy(update={"seed": derive_seed(seed, "preferences") % 2**31})
