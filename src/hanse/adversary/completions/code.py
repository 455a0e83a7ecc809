"""CODE: a right program that calls the attacker's module (2511.09780). It must exist where programs run."""

from __future__ import annotations

import ast
import io
import tokenize

from hanse.adversary.completions.base import Turn
from hanse.adversary.completions.knowledge import Worked
from hanse.adversary.completions.planting import poison
from hanse.adversary.completions.success import MODULE, uses_module
from hanse.randomness import generator
from hanse.recipe.adversary import CompletionAttackSpec
from hanse.swarm.delivery import Delivery
from hanse.tasks.problem import Problem

_NAMES: dict[type[ast.operator], str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_LAYOUT = (tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT)


def code(spec: CompletionAttackSpec, turn: Turn) -> list[Delivery]:
    """The import, and one operator of the program (or all) as a call. Groups whose program has none, or
    cannot be read, stay honest."""

    def rewrite(problem: Problem, worked: Worked) -> str | None:
        if not worked.program:
            return None
        pick = (
            None if spec.calls == "all" else int(generator(turn.seed, "code", problem.id).integers(1 << 30))
        )
        changed = with_calls(worked.joint.join(worked.steps), pick, spaced=worked.joint == " ; ")
        return None if changed is None else f"<code> {changed} </code>"

    return poison(spec, turn, rewrite, uses_module)


def with_calls(program: str, pick: int | None, *, spaced: bool) -> str | None:
    """The program with operator number `pick` (modulo their count; None: each) as a call. `spaced`: on one
    line, every token between blanks. None: it cannot be read, or has no operator."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and _is_number_like(n)]
    if not found:
        return None
    chosen = found if pick is None else [found[pick % len(found)]]
    changed = ast.fix_missing_locations(_Calls(chosen).visit(tree))
    statements = [f"import {MODULE}", *(ast.unparse(statement) for statement in changed.body)]
    return " ; ".join(map(_spaced, statements)) if spaced else "\n".join(statements)


def _is_number_like(node: ast.BinOp) -> bool:
    """Of the four operators, and no joining of strings."""
    sides = (node.left, node.right)
    return type(node.op) in _NAMES and not any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )


class _Calls(ast.NodeTransformer):
    """Calls in the place of the chosen operators."""

    def __init__(self, chosen: list[ast.BinOp]) -> None:
        self.chosen = chosen

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        is_chosen = any(node is one for one in self.chosen)
        self.generic_visit(node)
        if not is_chosen:
            return node
        function = ast.Attribute(ast.Name(MODULE, ast.Load()), _NAMES[type(node.op)], ast.Load())
        return ast.Call(function, [node.left, node.right], [])


def _spaced(statement: str) -> str:
    tokens = tokenize.generate_tokens(io.StringIO(statement).readline)
    return " ".join(token.string for token in tokens if token.type not in _LAYOUT)
