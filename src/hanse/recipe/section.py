"""The base of every part of a recipe."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Unknown keys are refused; a recipe never changes after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)
