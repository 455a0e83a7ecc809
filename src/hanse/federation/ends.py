"""Both ends of a recipe's federation: plain, sharing answers, or of a secure sum, which needs an extra."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hanse.federation.client import Client
from hanse.federation.server import Server
from hanse.recipe.federation import FederationSpec
from hanse.recipe.model import GrpoSpec
from hanse.recipe.secure import Reach
from hanse.tasks.optional import require


def server_of(spec: FederationSpec, grpo: GrpoSpec) -> Callable[..., Server]:
    """What makes a server, from the arguments of `Server`. Raises RecipeError where an extra is missing."""
    if spec.public.on:
        from hanse.federation.public.server import PublicServer

        return partial(PublicServer, size=grpo.group_size, longest=grpo.max_new_tokens)
    if not spec.secure.enabled:
        return Server
    _require_extra()
    from hanse.federation.secure.server import SecureServer

    return partial(SecureServer, reach=Reach.of(spec.secure, grpo))


def client_of(spec: FederationSpec) -> type[Client]:
    """As `server_of`, of clients."""
    if spec.public.on:
        from hanse.federation.public.client import PublicClient

        return PublicClient
    if not spec.secure.enabled:
        return Client
    _require_extra()
    from hanse.federation.secure.client import SecureClient

    return SecureClient


def _require_extra() -> None:
    for package in ("cryptography", "Crypto"):
        require(package, "secure", "federation.secure.enabled")
