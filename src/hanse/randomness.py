"""Counter-based random numbers: every draw is a pure function of who, when and where.

No generator object lives anywhere, so a draw does not depend on batch-mates, on order, or on what a
process did before; a resumed run and a verifier on another machine see the same numbers.
"""

from __future__ import annotations

import hashlib

import numpy as np


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from (seed, round, client, step, …); any change of any part gives an unrelated one."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(*parts: int | str) -> np.random.Generator:
    """A numpy generator of its own for the stream named by `parts`."""
    return np.random.default_rng(derive_seed(*parts))
