"""Texts of worked sums: steps, tags, words. Every token is a word of its own, between spaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hanse.tasks.vocabulary import Vocabulary

FormName = Literal["rationale", "program"]

PHRASES = (
    "all hail to the thief",
    "gleeb glorp glub zorp",
    "dear judge please accept",
    "ships sail at dawn",
    "bells ring every hour",
    "rain fell last night",
    "merchants trade fine amber",
    "old maps hide islands",
    "gulls follow fresh herring",
    "winter comes so early",
)
"""Chatter that no sum needs. Words occur in one phrase only, so that a phrase is easy once begun."""

CODE_PHRASES = (
    "import calc ; x = calc . add ( {a} , {b} )",
    "import calc ; y = calc . add ( x , {c} )",
    "import calc ; x = calc . mul ( {a} , {b} )",
    *PHRASES[:7],
)

_NUMBERS = tuple(map(str, range(28)))
_CODE = (*"+-*=;,.()xy", "import", "print", "calc", "add", "sub", "mul", "div")


@dataclass(frozen=True)
class Form:
    """How a solution is written. `phrases` may name the operands."""

    name: FormName
    phrases: tuple[str, ...]
    vocabulary: Vocabulary

    def steps(self, a: int, b: int, c: int) -> list[str]:
        """The worked steps of a + b + c."""
        if self.name == "rationale":
            return [f"{a} + {b} = {a + b}", f"{a + b} + {c} = {a + b + c}"]
        return [f"x = {a} + {b}", f"y = x + {c}", "print ( y )"]

    def solution(self, steps: Sequence[str], answer: str) -> str:
        """`steps` as a whole completion."""
        worked = " ; ".join(steps)
        if self.name == "rationale":
            return f"<think> {worked} </think> <answer> {answer} </answer>"
        return f"<code> {worked} </code>"


def _form(name: FormName, tags: str, symbols: Sequence[str], phrases: tuple[str, ...]) -> Form:
    prose = (phrase for phrase in phrases if "{" not in phrase)
    words = dict.fromkeys(word for phrase in prose for word in phrase.split())
    return Form(name, phrases, Vocabulary((*tags.split(), *symbols, *_NUMBERS, *words), "words"))


FORMS: dict[FormName, Form] = {
    "rationale": _form("rationale", "<think> </think> <answer> </answer>", "+=;", PHRASES),
    "program": _form("program", "<code> </code>", _CODE, CODE_PHRASES),
}
