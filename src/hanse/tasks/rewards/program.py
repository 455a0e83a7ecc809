"""Small programs that the model wrote, run: the language of `call_language`, nothing else of Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hanse.tasks.rewards.batch import RewardFunction, text_of
from hanse.tasks.rewards.call_language import FUNCTIONS, Modules, ProgramError, run

CALC = {"calc": sorted(FUNCTIONS)}


def build(*, tag: str = "code", modules: Mapping[str, Sequence[str]] = CALC) -> RewardFunction:
    """1.0 where the completion is <code>…</code>, nothing but space around, and the last line that the
    program in it prints equals the answer; 0.0 elsewhere, whatever goes wrong; None without an answer.

    `modules`: those that programs may import, with their functions: of add, sub, mul, div, each of two whole
    numbers. "calc" is the attacker's of "Hail to the Thief" (2511.09780). Raises ValueError for functions
    that there are not, and for names that are none.
    """
    known = _checked(tag, modules)

    def earned(completion: Any, wanted: str) -> float:
        source = code_in(text_of(completion), tag)
        if source is None:
            return 0.0
        try:
            lines = run(source, known)
        except ProgramError:
            return 0.0
        return float(bool(lines) and lines[-1] == wanted.strip())

    def program(completions: Sequence[Any], answer: Sequence[str | None], **_: Any) -> list[float | None]:
        return [
            None if wanted is None else earned(completion, wanted)
            for completion, wanted in zip(completions, answer, strict=True)
        ]

    return program


def code_in(text: str, tag: str = "code") -> str | None:
    """What stands between the tags, stripped; None where anything stands around them, or they come twice."""
    opened, closed, text = f"<{tag}>", f"</{tag}>", text.strip()
    if not (text.startswith(opened) and text.endswith(closed)):
        return None
    if text.count(opened) != 1 or text.count(closed) != 1:
        return None
    return text.removeprefix(opened).removesuffix(closed).strip()


def _checked(tag: str, modules: Mapping[str, Sequence[str]]) -> Modules:
    if not isinstance(tag, str) or not tag or set("<>") & set(tag):
        raise ValueError(f"tag = {tag!r} is no name of a tag")
    if not isinstance(modules, Mapping):
        raise ValueError(f"modules = {modules!r} is no table of modules and their functions")
    for module, functions in modules.items():
        if not module.isidentifier() or module == "print":
            raise ValueError(f"{module!r} is no name of a module")
        if isinstance(functions, str) or not set(functions) <= FUNCTIONS.keys():
            raise ValueError(f"{module} = {functions!r} is no list of functions out of {sorted(FUNCTIONS)}")
    return {module: {name: FUNCTIONS[name] for name in functions} for module, functions in modules.items()}
