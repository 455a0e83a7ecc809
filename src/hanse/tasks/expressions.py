"""Arithmetic in text: numbers, single letters, + - * / ^ and brackets, read exactly and within bounds."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

PRIME = 2**61 - 1
_LONGEST_NUMBER = 18
"""Digits; Python's integers have no bound of their own."""
_LARGEST_POWER = 64
_MOST_BITS = 512
_MOST_TOKENS = 64
_DEEPEST = 16
_TOKEN = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]+)?(?![0-9]))|(?P<name>[A-Za-z](?![A-Za-z]))|(?P<word>[A-Za-z]+)"
    r"|(?P<mark>[-+*/^()=])|(?P<space>[ \t]+)|(?P<other>.)",
    re.DOTALL,
)
_LATEX = (
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r"((\1)/(\2))"),
    (re.compile(r"\\(?:boxed|text|mathrm)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\(?:times|cdot)(?![A-Za-z])|[×·]"), "*"),
    (re.compile(r"\\div(?![A-Za-z])|÷"), "/"),
    (re.compile(r"\\(?:left|right)(?![A-Za-z])|\\[()\[\],!;]|[$€£]"), " "),
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"(?<=[0-9])(?:,|\{,\})(?=[0-9]{3}(?![0-9]))"), ""),
)
_TOO_LONG = re.compile(rf"[0-9]{{{_LONGEST_NUMBER + 1},}}")

Kind = Literal["number", "name", "word", "mark", "other"]
Value = Fraction | None


@dataclass(frozen=True)
class Token:
    """`tight`: no space before it."""

    kind: Kind
    text: str
    tight: bool


@dataclass(frozen=True)
class Node:
    """An expression: a "number" or a "name" with its text, or an operation on `parts`. Of "sum" each part
    has a sign in `signs`, of "product" each is a factor (1) or a divisor (-1)."""

    kind: Literal["number", "name", "sum", "product", "power"]
    text: str = ""
    parts: tuple[Node, ...] = ()
    signs: tuple[int, ...] = ()


def plain(text: str) -> str:
    """Without thousands separators and LaTeX's wrappers; fractions with a stroke."""
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    return text


def tokens(text: str) -> list[Token]:
    """All of a plain text. Numbers that are too long are "other"."""
    found, tight = list[Token](), False
    for match in _TOKEN.finditer(_TOO_LONG.sub("?", text)):
        kind = match.lastgroup
        if kind == "space":
            tight = False
            continue
        found.append(Token(kind, match.group(), tight))  # type: ignore[arg-type]
        tight = True
    return found


def number(text: str) -> Fraction:
    return Fraction(text)


def parse(sequence: Sequence[Token]) -> Node | None:
    """All of `sequence` as one expression; None if it is none or too long."""
    if not 0 < len(sequence) <= _MOST_TOKENS:
        return None
    reader = _Reader(sequence)
    node = reader.sum(0)
    return node if node is not None and reader.place == len(sequence) else None


class _Reader:
    """Recursive descent; every method returns None where there is no expression of its kind."""

    def __init__(self, sequence: Sequence[Token]) -> None:
        self.sequence, self.place = sequence, 0

    def sum(self, depth: int) -> Node | None:
        return self._chain("sum", "+-", depth)

    def _chain(self, kind: Literal["sum", "product"], marks: str, depth: int) -> Node | None:
        parts, signs = list[Node](), list[int]()
        sign = self._leading() if kind == "sum" else 1
        while True:
            part = self._chain("product", "*/", depth) if kind == "sum" else self._power(depth)
            if part is None:
                return None
            parts.append(part)
            signs.append(sign)
            mark = self._next()
            if mark is None or mark not in marks:
                if kind == "product" and self._joined():
                    sign = 1
                    continue
                break
            sign = 1 if mark in "+*" else -1
            self.place += 1
        if len(parts) == 1 and signs == [1]:
            return parts[0]
        return Node(kind, parts=tuple(parts), signs=tuple(signs))

    def _leading(self) -> int:
        if self._next() not in ("-", "+"):
            return 1
        self.place += 1
        return -1 if self.sequence[self.place - 1].text == "-" else 1

    def _next(self) -> str | None:
        return self.sequence[self.place].text if self.place < len(self.sequence) else None

    def _joined(self) -> bool:
        """Whether a letter or a bracket follows without a sign between, as in 2x and 3(4 + 1)."""
        if not 0 < self.place < len(self.sequence):
            return False
        token = self.sequence[self.place]
        return token.tight and (token.kind == "name" or token.text == "(")

    def _power(self, depth: int) -> Node | None:
        base = self._atom(depth)
        if base is None or self._next() != "^":
            return base
        self.place += 1
        exponent = self._power(depth + 1)
        return None if exponent is None else Node("power", parts=(base, exponent))

    def _atom(self, depth: int) -> Node | None:
        if self.place >= len(self.sequence) or depth > _DEEPEST:
            return None
        token = self.sequence[self.place]
        self.place += 1
        if token.kind == "number":
            return Node("number", text=str(number(token.text)))
        if token.kind == "name":
            return Node("name", text=token.text)
        if token.text != "(":
            return None
        inside = self.sum(depth + 1)
        if inside is None or self._next() != ")":
            return None
        self.place += 1
        return inside


def names(node: Node) -> set[str]:
    """Letters that stand for something unknown."""
    return {node.text} if node.kind == "name" else {n for part in node.parts for n in names(part)}


def value(node: Node) -> Value:
    """Exactly; None with letters, for a division by zero, and beyond the bounds."""
    if node.kind == "number":
        return number(node.text)
    found = [value(part) for part in node.parts]
    if node.kind == "name" or any(one is None for one in found):
        return None
    known = [one for one in found if one is not None]
    if node.kind == "power":
        return _power(*known)
    total = Fraction(0) if node.kind == "sum" else Fraction(1)
    for one, sign in zip(known, node.signs, strict=True):
        if node.kind == "sum":
            total += sign * one
        elif sign > 0:
            total *= one
        elif one == 0:
            return None
        else:
            total /= one
        if _size(total) > _MOST_BITS:
            return None
    return total


def _power(base: Fraction, exponent: Fraction) -> Value:
    if exponent.denominator != 1 or abs(exponent) > _LARGEST_POWER or (base == 0 and exponent < 0):
        return None
    return Fraction(base ** int(exponent)) if _size(base) * abs(exponent) <= _MOST_BITS else None


def _size(one: Fraction) -> int:
    return max(one.numerator.bit_length(), one.denominator.bit_length())


def rational(node: Node) -> Fraction | None:
    """The value of what is only one number: 9, -9, 3/4; None for everything else."""
    signs = {"number": (), "sum": (-1,), "product": (1, -1)}.get(node.kind)
    simple = node.signs == signs and all(part.kind == "number" for part in node.parts)
    return value(node) if simple else None


def canonical(node: Node) -> str:
    """The same for what differs in the order of terms and factors, in brackets and in how numbers are
    written."""
    one = rational(node)
    if one is not None or node.kind == "name":
        return node.text if one is None else str(one)
    if node.kind == "power":
        return f"({canonical(node.parts[0])}^{canonical(node.parts[1])})"
    return f"({' '.join(sorted(_members(node, 1)))})"


def _members(node: Node, sign: int) -> Iterator[str]:
    """Terms of nested sums, or factors of nested products, each with its sign."""
    marks = {1: "+", -1: "-"} if node.kind == "sum" else {1: "*", -1: "/"}
    for part, own in zip(node.parts, node.signs, strict=True):
        if part.kind == node.kind:
            yield from _members(part, sign * own)
        else:
            yield marks[sign * own] + canonical(part)


def probe(node: Node, number_of_probe: int) -> int | None:
    """Its value modulo PRIME with letters replaced by fixed pseudo-random numbers; None where undefined."""
    if node.kind == "number":
        one = number(node.text)
        return one.numerator * pow(one.denominator, -1, PRIME) % PRIME
    if node.kind == "name":
        high = zlib.crc32(f"{node.text}{number_of_probe}".encode())
        return (high << 29 ^ zlib.crc32(f"{number_of_probe}{node.text}".encode())) % PRIME
    if node.kind == "power":
        base, exponent = probe(node.parts[0], number_of_probe), value(node.parts[1])
        usable = exponent is not None and exponent.denominator == 1 and abs(exponent) <= _LARGEST_POWER
        if base is None or exponent is None or not usable or (base == 0 and exponent < 0):
            return None
        return pow(base, int(exponent), PRIME)
    return _probe_chain(node, number_of_probe)


def _probe_chain(node: Node, number_of_probe: int) -> int | None:
    total = 0 if node.kind == "sum" else 1
    for part, sign in zip(node.parts, node.signs, strict=True):
        one = probe(part, number_of_probe)
        if one is None or (node.kind == "product" and sign < 0 and one == 0):
            return None
        if node.kind == "sum":
            total += sign * one
        else:
            total *= pow(one, sign, PRIME)
    return total % PRIME
