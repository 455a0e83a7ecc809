"""Tasks of preferences: two completions of a prompt, and which of them somebody likes better."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hanse.recipe.section import Section

Attribute = Literal["tone", "length", "worked"]


class SyntheticPreferencesTask(Section):
    """Pairs of made-up completions, labelled by clients of latent groups with opposed tastes.

    `clients`: how many each group has. `attributes`: what they care about: formal or casual words (each of
    `words` has one tone), the length, whether the steps are shown; two groups are opposed in all of them,
    further ones in some. `pairs`, `validation_pairs`, `held_out_pairs`: of each client. `noise`: chance that
    a label is the wrong way round. `seed`: of all that is drawn; None: the recipe's.
    """

    type: Literal["synthetic-preferences"]
    clients: list[Annotated[int, Field(ge=1, le=1000)]] = Field(default=[10, 10], min_length=1, max_length=8)
    attributes: list[Attribute] = Field(default=["tone"], min_length=1)
    words: int = Field(default=128, ge=2, le=2000)
    pairs: int = Field(default=32, ge=1, le=100_000)
    validation_pairs: int = Field(default=16, ge=0, le=100_000)
    held_out_pairs: int = Field(default=64, ge=1, le=100_000)
    noise: float = Field(default=0.05, ge=0, lt=0.5)
    seed: int | None = Field(default=None, ge=0, lt=2**31)


class PreferencesTask(Section):
    """A JSONL file of pairs, one a row: a prompt, the completion that was chosen, and the rejected one. All
    other columns stay with the pair, as whose it is; the split is by a hash of the prompt."""

    type: Literal["preferences"]
    path: str
    prompt: str = "prompt"
    chosen: str = "chosen"
    rejected: str = "rejected"
    chat: bool = False
    held_out_fraction: float = Field(default=0.2, gt=0, lt=1)
    validation_fraction: float = Field(default=0.1, ge=0, lt=1)
    limit: int | None = Field(default=None, ge=1)


PREFERENCE_TASKS = ("synthetic-preferences", "preferences")
"""Types of tasks whose problems are pairs."""
