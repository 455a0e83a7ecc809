"""What a reward function is called with, and what it may return. Standard library only: workers load this."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

RewardFunction = Callable[..., Any]
"""TRL's signature: f(prompts, completions, **columns) → list[float | None], None = not applicable."""

MESSAGE_LENGTH = 300

RESERVED = frozenset({"prompt", "prompts", "completion", "completions", "completion_ids"})
"""Names that no column can have."""


class WrongLengthError(Exception):
    """A function returned another number of rewards than it got completions: it cannot be told which is
    whose, and asking again row by row would only hide that."""


class WrongResultError(Exception):
    """A reward function returned something other than one number or None for each completion."""


@dataclass(frozen=True)
class Failure:
    """Why completions got no value: a short reason that is counted, and a line for the operator."""

    reason: str
    message: str


Result = list[float | None] | Failure
"""One value a completion (None = not applicable), or why there is none."""


@dataclass(frozen=True)
class Batch:
    """N completions, in TRL's form: strings for string prompts, message lists for message prompts."""

    prompts: list[Any]
    completions: list[Any]
    completion_ids: list[list[int]] | None
    columns: Mapping[str, list[Any]]

    def __len__(self) -> int:
        return len(self.prompts)

    def part(self, rows: range) -> Batch:
        """The completions of consecutive `rows`."""
        if len(rows) == len(self):
            return self
        here = slice(rows.start, rows.stop)
        return Batch(
            self.prompts[here],
            self.completions[here],
            None if self.completion_ids is None else self.completion_ids[here],
            {name: values[here] for name, values in self.columns.items()},
        )


def attempt(call: Callable[[Batch], Any], batch: Batch) -> Result:
    """`call(batch)` with whatever goes wrong as a Failure; only an interrupt from outside passes."""
    try:
        return as_numbers(call(batch), len(batch))
    except WrongLengthError as error:
        return Failure("wrong length", describe(error))
    except WrongResultError as error:
        return Failure("wrong result", describe(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001
        return Failure("exception", describe(error))


def describe(error: BaseException) -> str:
    """Type and message in a short line; the classes of users may break even that."""
    try:
        return f"{type(error).__name__}: {error}"[:MESSAGE_LENGTH]
    except (Exception, SystemExit):  # noqa: BLE001
        return type(error).__name__


def text_of(completion: Any) -> str:
    """The text of a completion in either form; of several messages, the last one's."""
    text = completion if isinstance(completion, str) else completion[-1]["content"]
    return str(text)


def tagged(text: str, tag: str) -> str | None:
    """What stands between the last <tag> and the next </tag>, stripped; None without the two."""
    _, opened, rest = text.rpartition(f"<{tag}>")
    inside, closed, _ = rest.partition(f"</{tag}>")
    return inside.strip() if opened and closed else None


def as_numbers(result: Iterable[Any], expected: int) -> list[float | None]:
    """`result` as floats; numbers of any kind and booleans will do.

    Raises WrongResultError, WrongLengthError.
    """
    if isinstance(result, str | bytes | Mapping) or not isinstance(result, Iterable):
        raise WrongResultError(f"expected a list of {expected} numbers, got {type(result).__name__}")
    values = list(result)
    if len(values) != expected:
        raise WrongLengthError(f"expected {expected} rewards, got {len(values)}")
    return [_as_number(value) for value in values]


def _as_number(value: Any) -> float | None:
    if value is None or type(value) is float:
        return value
    if isinstance(value, str | bytes):
        raise WrongResultError(f"expected a number or None, got {type(value).__name__}")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise WrongResultError(f"expected a number or None, got {type(value).__name__}") from error
