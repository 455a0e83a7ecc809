"""The `[adversary]` part of a recipe: who lies, and how. For studies."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hanse.recipe.section import Section


class AdversarySpec(Section):
    """`clients`: indices of those who lie, from 0 (none: nobody does). `factor`: of inflate-signal."""

    clients: list[Annotated[int, Field(ge=0)]] = Field(default=[])
    attack: Literal["inflate-signal"] = "inflate-signal"
    factor: float = Field(default=10.0, ge=1)
