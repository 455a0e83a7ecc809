"""A call language: a piece of Python small enough that every program in it ends at once.

    import calc ; x = calc.add(2, 2) ; y = x + 7 ; print(y)

Assignments to one name; + - * of names and whole numbers; calls of functions of imported modules; print.
No loops, no functions, no attributes but those calls, no strings; numbers, steps and depth are bounded. It is
read with `ast` and run step by step here: nothing reaches Python's own eval.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

Function = Callable[[int, int], int]
Modules = Mapping[str, Mapping[str, Function]]

MAX_CHARACTERS = 2000
MAX_STATEMENTS = 64
MAX_DEPTH = 16
MAX_NUMBER = 10**12


class ProgramError(Exception):
    """The text is no program of the language, or the program fails."""


def _divide(a: int, b: int) -> int:
    if b == 0 or a % b:
        raise ProgramError(f"{a} / {b} is no whole number")
    return a // b


FUNCTIONS: Mapping[str, Function] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _divide,
}
_OPERATORS: Mapping[type[ast.operator], Function] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def run(source: str, modules: Modules) -> list[str]:
    """The lines that a program prints. Raises ProgramError."""
    program = _Program(modules)
    for statement in _parse(source).body:
        program.execute(statement)
    return program.lines


def _parse(source: str) -> ast.Module:
    if len(source) > MAX_CHARACTERS:
        raise ProgramError(f"longer than {MAX_CHARACTERS} characters")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProgramError(f"no Python: {type(error).__name__}") from error
    if len(tree.body) > MAX_STATEMENTS:
        raise ProgramError(f"more than {MAX_STATEMENTS} statements")
    return tree


class _Program:
    """The state of a running program: names, imported modules, printed lines."""

    def __init__(self, modules: Modules) -> None:
        self._modules = modules
        self._values: dict[str, int] = {}
        self._imported: dict[str, Mapping[str, Function]] = {}
        self.lines: list[str] = []

    def execute(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Import(names=[ast.alias(name=name, asname=None)]) if name in self._modules:
                self._imported[name] = self._modules[name]
                self._values.pop(name, None)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name != "print":
                self._values[name] = self._value(value)
                self._imported.pop(name, None)
            case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=arguments, keywords=[])):
                self.lines.append(" ".join(str(self._value(argument)) for argument in arguments))
            case ast.Expr(value=ast.Call() as call):
                self._value(call)
            case _:
                raise ProgramError(f"{type(statement).__name__} is not in the language")

    def _value(self, node: ast.expr, depth: int = 0) -> int:
        if depth > MAX_DEPTH:
            raise ProgramError(f"deeper than {MAX_DEPTH}")
        match node:
            case ast.Constant(value=int(number)) if type(number) is int:
                result = number
            case ast.Name(id=name) if name in self._values:
                result = self._values[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                result = _OPERATORS[type(op)](self._value(left, depth + 1), self._value(right, depth + 1))
            case ast.Call(func=function, args=[left, right], keywords=[]):
                result = self._function(function)(self._value(left, depth + 1), self._value(right, depth + 1))
            case _:
                raise ProgramError(f"{type(node).__name__} is not in the language, or unknown")
        if abs(result) > MAX_NUMBER:
            raise ProgramError(f"beyond {MAX_NUMBER}")
        return result

    def _function(self, node: ast.expr) -> Function:
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in self._imported.get(
                module, {}
            ):
                return self._imported[module][name]
        raise ProgramError("a call of something unknown")
