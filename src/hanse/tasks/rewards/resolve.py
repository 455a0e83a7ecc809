"""From a reward of the recipe to something that can be called."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hanse.errors import RecipeError
from hanse.tasks.rewards import (
    adapters,
    code,
    exact,
    format,
    length,
    math,
    program,
    reasoning_gym,
    reward_model,
    tagged,
)
from hanse.tasks.rewards.batch import Batch, RewardFunction, describe

BUILT_IN: Mapping[str, Callable[..., RewardFunction]] = {
    "exact": exact.build,
    "math": math.build,
    "format": format.build,
    "length": length.build,
    "code": code.build,
    "reasoning_gym": reasoning_gym.build,
    "tagged": tagged.build,
    "program": program.build,
    "reward-model": reward_model.build,
}
_STYLES = {"trl": adapters.trl, "verl": adapters.verl, "verifiers": adapters.verifiers}


@dataclass(frozen=True)
class RewardSource:
    """A `RewardSpec` in plain values that travel as JSON; `field` is where it stands in the recipe."""

    field: str
    name: str | None
    path: str | None
    style: Literal["trl", "verl", "verifiers"]
    arguments: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The name under which its values are reported."""
        return self.name or (self.path or "").rpartition(":")[2]


@dataclass(frozen=True)
class Reward:
    """`call(batch)` gives one number or None a completion; it raises whatever the function raises."""

    call: Callable[[Batch], Any]
    needs_ids: bool


def check(source: RewardSource) -> None:
    """What can be said without running anything. Raises RecipeError on the field to mend."""
    if (source.name is None) == (source.path is None):
        problem = "it needs either `name` (a built-in) or `path` (your function), and has both or neither."
        raise RecipeError(source.field, problem, f"Built-ins: {', '.join(BUILT_IN)}.")
    if source.name is not None:
        _check_built_in(source, source.name)
        return
    where, colon, function = (source.path or "").rpartition(":")
    if not (colon and where and function):
        problem = f"{source.path!r} does not name a function."
        raise RecipeError(
            f"{source.field}.path", problem, 'Write "package.module:function" or "file.py:function".'
        )
    if where.endswith(".py") and not Path(where).expanduser().is_file():
        problem = f"the file {where!r} does not exist (looked for it in {Path.cwd()})."
        raise RecipeError(
            f"{source.field}.path", problem, "Give a path that is absolute or relative to that folder."
        )


def _check_built_in(source: RewardSource, name: str) -> None:
    if name not in BUILT_IN:
        problem = f"there is no built-in reward {name!r}."
        raise RecipeError(
            f"{source.field}.name", problem, f"Built-ins: {', '.join(BUILT_IN)}; or set `path`."
        )
    if source.style != "trl":
        problem = f"style {source.style!r} is for functions by `path`."
        raise RecipeError(f"{source.field}.style", problem, "Leave it out for built-ins.")
    signature = inspect.signature(BUILT_IN[name])
    try:
        signature.bind(**source.arguments)
        if "pattern" in source.arguments:
            re.compile(source.arguments["pattern"])
    except (TypeError, re.error) as error:
        raise _bad_arguments(source, error) from error


def _bad_arguments(source: RewardSource, error: Exception) -> RecipeError:
    taken = ", ".join(inspect.signature(BUILT_IN[source.name or ""]).parameters) or "none"
    problem = f"the reward {source.name!r} cannot use them: {error}."
    return RecipeError(f"{source.field}.arguments", problem, f"It takes: {taken}.")


def resolve(source: RewardSource) -> Reward:
    """Build a built-in, or import a function: this runs the user's module. Raises RecipeError."""
    check(source)
    if source.name is None:
        function = _load(source)
        call = _STYLES[source.style](function, source.arguments)
        return Reward(call, _needs_ids(function, by_keywords=source.style == "trl"))
    try:
        function = BUILT_IN[source.name](**source.arguments)
    except (TypeError, ValueError) as error:
        raise _bad_arguments(source, error) from error
    except RecipeError as error:
        raise RecipeError(source.field, error.problem, error.remedy) from error
    return Reward(adapters.trl(function, {}), _needs_ids(function, by_keywords=False))


def _needs_ids(function: RewardFunction, *, by_keywords: bool) -> bool:
    parameters = inspect.signature(function).parameters
    return "completion_ids" in parameters or (
        by_keywords and any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    )


def _load(source: RewardSource) -> RewardFunction:
    where, _, name = (source.path or "").rpartition(":")
    field = f"{source.field}.path"
    try:
        module = _module_of_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except (Exception, SystemExit) as error:
        problem = f"importing {where!r} failed: {describe(error)}."
        raise RecipeError(
            field,
            problem,
            "Correct the path, mend the module, or raise scoring.memory_mb if loading it needs more.",
        ) from error
    function: Any = module
    for part in name.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        offered = [
            n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__
        ]
        problem = f"{where!r} has no function {name!r}."
        raise RecipeError(field, problem, f"It defines: {', '.join(offered) or 'no functions'}.")
    return function  # type: ignore[no-any-return]


def _module_of_file(path: Path) -> Any:
    """The module in a file, whose folder joins the import path as a script's does."""
    path = path.expanduser().resolve()
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    name = f"hanse_reward_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
