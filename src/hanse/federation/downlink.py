"""What a server sends down: a patch of what the client is known to hold, or whole values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from hanse.federation.messages import Payload
from hanse.federation.payload import Codec, pack
from hanse.federation.wire.layout import Layout

MAX_BASES = 4
"""Past bases that are remembered; clients that hold an older one get whole values."""


@dataclass
class Downlink:
    """`held`: the hash of the base that each client last answered to; `bases`: remembered values by hash,
    oldest first, in the exchange dtype, shape (numel,)."""

    held: dict[int, str] = field(default_factory=dict)
    bases: dict[str, Tensor] = field(default_factory=dict)

    def known_to(self, client: int) -> str | None:
        """The hash of a base that this client holds and that is still remembered here."""
        digest = self.held.get(client)
        return digest if digest in self.bases else None

    def payload(self, base: Tensor, patched: str | None, layout: Layout, codec: Codec) -> Payload:
        """`base` as a patch of the remembered base `patched`, or whole."""
        if patched is None:
            return pack(base, None, layout, "dense", "")
        return pack(base, self.bases[patched], layout, codec, patched)

    def late(self, held: Mapping[int, str]) -> None:
        """These clients have shown late which older bases they hold; where forgotten, that says nothing."""
        self.held |= {client: digest for client, digest in held.items() if digest in self.bases}

    def answered(self, clients: list[int], digest: str, base: Tensor) -> None:
        """These clients hold `base` now. Bases that nobody holds are forgotten, and old ones."""
        self.held |= dict.fromkeys(clients, digest)
        self.bases[digest] = base
        used = set(self.held.values())
        kept = [name for name in self.bases if name in used][-MAX_BASES:]
        self.bases = {name: self.bases[name] for name in kept}
