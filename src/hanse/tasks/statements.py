"""What a text states in numbers: equalities and values, under keys that spelling does not change."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hanse.tasks.expressions import (
    PRIME,
    Node,
    Token,
    canonical,
    names,
    number,
    parse,
    plain,
    probe,
    rational,
    tokens,
)
from hanse.tasks.expressions import value as value_of

_SIDE = 64
"""Tokens of one side of an equality that are read."""
_PROBES = 3
_FRACTION = re.compile(r"(?<![0-9./])([0-9]{1,18})/([0-9]{1,18})(?![0-9/]|\.[0-9])")
_MARKS = ("<answer>", "\\boxed{", "####")


@dataclass(frozen=True)
class Equality:
    """`holds`: None where letters leave it open. `key`: of what it states; None where that is nothing, as of
    9 = 9 or x + 1 = 1 + x, or where it is wrong. `value`: of both sides, if they are numbers."""

    key: str | None
    holds: bool | None
    value: Fraction | None
    text: str


def equalities(text: str) -> list[Equality]:
    """Every a = b in `text`, from left to right; of a = b = c two."""
    found, sequence = list[Equality](), tokens(plain(text))
    for place, token in enumerate(sequence):
        if token.text != "=":
            continue
        left, right = _before(sequence, place), _after(sequence, place)
        if left is not None and right is not None:
            found.append(_equality(*left, *right))
    return found


def _before(sequence: Sequence[Token], place: int) -> tuple[Node, str] | None:
    """The longest expression that ends before `place`."""
    first = place
    while first > max(0, place - _SIDE) and _belongs(sequence[first - 1]):
        first -= 1
    return _longest(sequence[start:place] for start in range(first, place))


def _after(sequence: Sequence[Token], place: int) -> tuple[Node, str] | None:
    """The longest that begins behind it."""
    last = place + 1
    while last < min(len(sequence), place + 1 + _SIDE) and _belongs(sequence[last]):
        last += 1
    return _longest(sequence[place + 1 : end] for end in range(last, place + 1, -1))


def _belongs(token: Token) -> bool:
    return token.kind in ("number", "name", "mark") and token.text != "="


def _longest(candidates: Iterator[Sequence[Token]]) -> tuple[Node, str] | None:
    for part in candidates:
        node = parse(part)
        if node is not None:
            return node, " ".join(token.text for token in part)
    return None


def _equality(left: Node, left_text: str, right: Node, right_text: str) -> Equality:
    text = f"{left_text} = {right_text}"
    if names(left) or names(right):
        return Equality(_key_with_letters(left, right), None, None, text)
    a, b = value_of(left), value_of(right)
    if a is None or b is None:
        return Equality(None, None, None, text)
    sides = sorted(canonical(side) for side in (left, right) if rational(side) is None)
    key = f"{'='.join([*sides, str(a)])}" if sides and a == b else None
    return Equality(key, a == b, a, text)


def _key_with_letters(left: Node, right: Node) -> str | None:
    """By the difference of both sides at fixed points, up to a factor: the same for 2x = 6 and 3 = x."""
    differences = list[int]()
    for i in range(_PROBES):
        a, b = probe(left, i), probe(right, i)
        if a is None or b is None:
            return None
        differences.append((a - b) % PRIME)
    first = next((d for d in differences if d), None)
    if first is None:
        return None
    scaled = [d * pow(first, -1, PRIME) % PRIME for d in differences]
    letters = "".join(sorted(names(left) | names(right)))
    return f"{letters}~{hashlib.sha256(str(scaled).encode()).hexdigest()[:16]}"


def values(text: str) -> set[Fraction]:
    """All numbers in `text`, fractions of whole numbers in lowest terms beside their parts."""
    clean = plain(text)
    found = {number(token.text) for token in tokens(clean) if token.kind == "number"}
    fractions = _FRACTION.findall(clean)
    return found | {Fraction(int(a), int(b)) for a, b in fractions if int(b)}


def before_answer(text: str) -> str:
    """What stands before the final answer's mark (an answer tag, \\boxed, ####); all of it without one."""
    places = [place for mark in _MARKS if (place := text.rfind(mark)) >= 0]
    return text[: min(places)] if places else text
