"""How a run reaches its clients: by what its recipe's runtime is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from hanse.recipe.model import Recipe
from hanse.runs.folder import RunFolder
from hanse.runtime.flower import require_flower

if TYPE_CHECKING:
    from hanse.runtime.base import Connect


@contextmanager
def connection(recipe: Recipe, folder: RunFolder, given: Connect | None) -> Iterator[Connect | None]:
    """What to build the runtime with, for as long as the run goes on; None: clients are in this process.

    Raises RunError for a run whose clients join, where it is not known at which address.
    """
    if given is not None or not recipe.runtime.elsewhere:
        yield given
        return
    if recipe.runtime.type == "flower-simulation":
        from hanse.runtime.flower.simulation import connect

        yield connect
        return
    require_flower("runtime.type")
    from hanse.runtime.flower.serving import Link, Serving

    with closing(Link(Serving.load(folder.path))) as link:
        yield link.connect
        link.farewell()
