"""Steps of worked solutions: where they are, in characters and in tokens."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from hanse.tasks.statements import before_answer

Decode = Callable[[Sequence[Sequence[int]]], list[str]]
"""Token ids of N completions -> their texts."""
_BREAKS = str.maketrans(";", "\n")


def step_spans(text: str, within: str) -> list[range]:
    """Characters of each line, or part between semicolons, that is not blank: inside the first <within> tag
    where there is one, else of all that stands before the final answer."""
    start, stop = 0, len(before_answer(text))
    opened = text.find(f"<{within}>")
    if opened >= 0:
        start = opened + len(within) + 2
        closed = text.find(f"</{within}>", start)
        stop = closed if closed >= 0 else len(text)
    spans, place = list[range](), start
    for line in text[start:stop].translate(_BREAKS).split("\n"):
        left = place + len(line) - len(line.lstrip())
        right = place + len(line.rstrip())
        if right > left:
            spans.append(range(left, right))
        place += len(line) + 1
    return spans


def pieces(ids_N: Sequence[Sequence[int]], decode: Decode) -> dict[int, str]:
    """What each token that occurs says by itself."""
    distinct = sorted({i for ids in ids_N for i in ids})
    return dict(zip(distinct, decode([[i] for i in distinct]), strict=True)) if distinct else {}


def token_spans(
    ids: Sequence[int], text: str, spans_S: Sequence[range], piece_of: Mapping[int, str], decode: Decode
) -> list[range]:
    """The tokens that write each span's characters. Tokens are never made anew from text: their pieces are
    added up where they give the text, else beginnings of the completion are decoded."""
    ends = _ends([piece_of[i] for i in ids], text)

    def written(count: int) -> int:
        return ends[count] if ends is not None else len(decode([ids[:count]])[0])

    def first(length: int) -> int:
        """How many tokens it takes to write `length` characters."""
        return bisect_left(range(len(ids)), length, key=written)

    return [range(max(0, first(span.start + 1) - 1), min(len(ids), first(span.stop))) for span in spans_S]


def _ends(written: Sequence[str], text: str) -> list[int] | None:
    """Characters in the first 0, 1, … pieces; None where they do not add up to the text."""
    if "".join(written) == text:
        return list(accumulate(map(len, written), initial=0))
    if " ".join(piece for piece in written if piece) == text:
        spaced = [len(piece) + 1 if piece else 0 for piece in written]
        return [max(0, end - 1) for end in accumulate(spaced, initial=0)]
    return None
