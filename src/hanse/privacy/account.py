"""A client's privacy account: the key that only it holds, and what it has spent, written before it is."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hanse.errors import RecipeError, RunError
from hanse.privacy.accountant import calibrate, epsilon
from hanse.privacy.noise import KEY, Stream, key_from_seed, new_key
from hanse.recipe.privacy import AccountantName, PrivacySpec
from hanse.storage import sync


@dataclass(frozen=True)
class Terms:
    """What a client's mechanism is: it stays the same for a whole run.

    `noise`: over the sensitivity of a step's sum; `rate`: of the Poisson sampling, expected batch over
    problems; `budget`: epsilon, None: unlimited; `seeded`: the key can be made by others. `binding`: digest
    of everything else that a step's sum depends on.
    """

    noise: float
    rate: float
    delta: float
    accountant: AccountantName
    budget: float | None
    seeded: bool
    binding: str = ""

    @classmethod
    def of(
        cls, spec: PrivacySpec, problems: int, expected: int, steps: int, whose: str, binding: str = ""
    ) -> Terms:
        """For a client with so many problems, of which a step takes `expected` on average.

        Raises RecipeError where that is more than it has, where delta is so large that one of its problems
        could be published outright, and where the budget is too small for any noise.
        """
        if expected > problems:
            raise RecipeError(
                "grpo.prompts_per_step",
                f"{whose} has {problems} problems, and a step is to take {expected} on average.",
                f"Use {problems} or fewer; much fewer, as privacy costs less where a step sees few of them.",
            )
        rate, delta = expected / problems, spec.delta_of(problems)
        if delta * problems >= 1:
            raise RecipeError(
                "privacy.delta",
                f"{delta:g} allows publishing one of the {problems} problems of {whose}.",
                f"Use far less than {1 / problems:.2g}, or leave it out for {problems**-1.1:.2g}.",
            )
        noise = spec.noise
        if noise is None:
            assert spec.epsilon is not None
            try:
                noise = calibrate(spec.accountant, spec.epsilon, delta, rate, steps)
            except ValueError as error:
                raise RecipeError(
                    "privacy.epsilon", f"{error}.", "Raise it, or train for fewer rounds."
                ) from error
        return cls(noise, rate, delta, spec.accountant, spec.epsilon, spec.key == "seed", binding)

    def epsilon(self, steps: int) -> float:
        """What so many steps cost."""
        return epsilon(self.accountant, self.noise, self.rate, steps, self.delta)

    def within(self, steps: int) -> bool:
        return self.budget is None or self.epsilon(steps) <= self.budget


class Account:
    """Charges by what they were for. One that is asked for again is not charged again: key, terms and purpose
    are the same, so the same bits would leave; everything else is charged before it leaves.

    `path` None: in memory only.
    """

    def __init__(self, terms: Terms, key: bytes, charges: dict[str, int], path: Path | None) -> None:
        self.terms, self.charges, self._path = terms, charges, path
        self.stream = Stream(key).sub(terms.binding)

    @classmethod
    def in_memory(cls, terms: Terms, seed: int, client: int) -> Account:
        return cls(terms, _key(terms, seed, client), {}, None)

    @classmethod
    def open(cls, folder: Path, terms: Terms, seed: int, client: int) -> Account:
        """The client's account in `folder`, made where there is none. One that was begun keeps its noise,
        also where the run has since been given more rounds.

        Raises RunError where it is damaged, or of other problems or another recipe.
        """
        path = folder / f"client-{client:04d}.jsonl"
        if path.is_file():
            return cls._read(path, terms)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = _key(terms, seed, client)
        partial = path.with_suffix(".new")
        partial.unlink(missing_ok=True)
        _append(partial, {"key": key.hex(), **asdict(terms)})
        partial.replace(path)
        sync(folder)
        return cls(terms, key, {}, path)

    @classmethod
    def _read(cls, path: Path, wanted: Terms) -> Account:
        whole = path.read_bytes()
        complete = whole[: whole.rfind(b"\n") + 1]
        try:
            head, *lines = [json.loads(line) for line in complete.splitlines()]
            key = bytes.fromhex(head.pop("key"))
            terms, charges = Terms(**head), {str(line["for"]): int(line["steps"]) for line in lines}
            if len(key) != KEY or min(charges.values(), default=1) < 1:
                raise ValueError("a key or a charge is none")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"{path}, a client's privacy account, is damaged: {error}. What it spent is unknown, so it "
                "may not go on: restore the file from a copy, or start a new run."
            ) from error
        if (terms.binding, terms.seeded) != (wanted.binding, wanted.seeded):
            raise RunError(
                f"{path} is the privacy account of other problems or another recipe. Start a new run."
            )
        if len(complete) < len(whole):  # cut short before anything was done for it
            with path.open("r+b") as file:
                file.truncate(len(complete))
        return cls(terms, key, charges, path)

    @property
    def steps(self) -> int:
        return sum(self.charges.values())

    @property
    def epsilon(self) -> float:
        """Spent so far."""
        return self.terms.epsilon(self.steps)

    def charge(self, purpose: str, steps: int) -> bool:
        """Charge for `steps` steps unless that was done before; False, and no charge, where the budget is too
        small. What was charged is on disk when this returns."""
        if purpose in self.charges:
            return True
        if not self.terms.within(self.steps + steps):
            return False
        if self._path is not None:
            _append(self._path, {"for": purpose, "steps": steps})
        self.charges[purpose] = steps
        return True


def _key(terms: Terms, seed: int, client: int) -> bytes:
    return key_from_seed(seed, client) if terms.seeded else new_key()


def _append(path: Path, line: dict[str, Any]) -> None:
    """For the owner's eyes only: it begins with the key."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
