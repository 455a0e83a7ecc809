"""What went wrong, in words for the person who can mend it, and the exit code that tells a script."""

from __future__ import annotations

from typing import ClassVar

EXIT_OK = 0
EXIT_UNEXPECTED = 1
EXIT_RECIPE = 2
EXIT_INTERRUPTED = 3
EXIT_NON_FINITE = 4
EXIT_QUORUM = 5
EXIT_RUN = 6
EXIT_UNREACHABLE = 7


class HanseError(Exception):
    """A failure that the user can act on: printed as one paragraph, without a traceback."""

    exit_code: ClassVar[int] = EXIT_UNEXPECTED


class RecipeError(HanseError):
    """The recipe, or a file that it names, cannot be used. Names the field and the remedy."""

    exit_code = EXIT_RECIPE

    def __init__(self, field: str, problem: str, remedy: str) -> None:
        self.field, self.problem, self.remedy = field, problem, remedy
        super().__init__(f"{field}: {problem} {remedy}")

    def __reduce__(self) -> tuple[type[RecipeError], tuple[str, str, str]]:
        return type(self), (self.field, self.problem, self.remedy)


class RunError(HanseError):
    """A run folder cannot be read, written or continued."""

    exit_code = EXIT_RUN


class NonFiniteError(HanseError):
    """Training produced non-finite values too often; the last good checkpoint is kept."""

    exit_code = EXIT_NON_FINITE


class QuorumError(HanseError):
    """Too few clients replied."""

    exit_code = EXIT_QUORUM


class UnreachableError(HanseError):
    """A server does not answer, or turns the client away."""

    exit_code = EXIT_UNREACHABLE


class InterruptedRunError(HanseError):
    """The user stopped the run; it can be resumed."""

    exit_code = EXIT_INTERRUPTED
