"""Cryptography, none of it our own: X25519, HKDF, ChaCha20-Poly1305 and AES-CTR from `cryptography`, Shamir's
secret sharing from `pycryptodome`. No other file imports either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

KEY = 32
"""Bytes of every key, seed and share."""
SEAL = 16
"""Bytes that sealing adds."""
Entropy = Callable[[int], bytes]
"""Draws that many bytes; `secrets.token_bytes` everywhere but in tests."""
_BLOCK = 1 << 20
_CHUNK = 16
"""What the primitive shares at once: an element of GF(2^128)."""
_FIELD = 2**255 - 19
"""Of X25519's coordinates."""
_ONCE = bytes(12)
"""A nonce of zeros: every key seals one message, or makes one stream."""


def public_key(private: bytes) -> bytes:
    """The X25519 public key, 32 bytes."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed_key(private: bytes, public: bytes, purpose: bytes) -> bytes:
    """What two parties derive from one's private and the other's public key, 32 bytes.

    Raises ValueError for a public key of small order, with which everybody would derive the same, and for
    one that is written as no honest party writes it: two forms of one key would pass for two.
    """
    if int.from_bytes(public, "little") >= _FIELD:
        raise ValueError("a public key that is not in its only form")
    shared = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    return derived(shared, purpose)


def derived(secret: bytes, purpose: bytes) -> bytes:
    """A key for one purpose, 32 bytes."""
    return HKDF(SHA256(), KEY, salt=None, info=purpose).derive(secret)


def seal(key: bytes, text: bytes, context: bytes) -> bytes:
    """`text` encrypted and authenticated, 16 bytes longer. A key seals once."""
    return ChaCha20Poly1305(key).encrypt(_ONCE, text, context)


def unseal(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """Raises ValueError for anything but what `seal` made with this key and context."""
    try:
        return ChaCha20Poly1305(key).decrypt(_ONCE, sealed, context)
    except InvalidTag:
        raise ValueError("was sealed with another key, or damaged") from None


def keystream(key: bytes, length: int) -> Iterator[NDArray[np.uint8]]:
    """`length` pseudo-random bytes of AES-256-CTR, in blocks of a mebibyte at most."""
    encryptor = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    zeros = bytes(min(length, _BLOCK))
    for start in range(0, length, _BLOCK):
        block = memoryview(zeros)[: min(_BLOCK, length - start)]
        yield np.frombuffer(encryptor.update(block), np.uint8)


def split_secret(secret: bytes, threshold: int, holders: int) -> list[bytes]:
    """One share of a 32-byte secret for each holder, 32 bytes each; any `threshold` of them give it."""
    chunks = [secret[i : i + _CHUNK] for i in range(0, KEY, _CHUNK)]
    columns = [
        [share for _, share in Shamir.split(threshold, holders, chunk, ssss=False)] for chunk in chunks
    ]
    return [b"".join(parts) for parts in zip(*columns, strict=True)]


def join_secret(shares: Mapping[int, bytes]) -> bytes:
    """The secret of shares by holder, counted from 0. Exactly as many as the threshold; of others, or of
    damaged ones, it is another secret: the caller compares it with what it is known by."""
    return b"".join(_joined(shares, slice(i, i + _CHUNK)) for i in range(0, KEY, _CHUNK))


def _joined(shares: Mapping[int, bytes], part: slice) -> bytes:
    return Shamir.combine([(holder + 1, share[part]) for holder, share in shares.items()], ssss=False)


def is_key(public: bytes) -> bool:
    """Whether these bytes are a public key that two parties can agree on a secret with."""
    try:
        agreed_key(bytes(range(KEY)), public, b"")
    except ValueError:
        return False
    return True
