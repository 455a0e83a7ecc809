"""Bytes read with every length checked first."""

from __future__ import annotations

from typing import Final

import zstandard

from hanse.federation.wire.frame import WireError

_MOST_BYTES: Final = 10


class Reader:
    """Reads forward through received bytes; raises WireError instead of reading past the end."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> memoryview:
        """The next `count` bytes, as a view."""
        if not 0 <= count <= len(self._data) - self._at:
            raise WireError(f"{count} bytes wanted, {len(self._data) - self._at} left")
        self._at += count
        return self._data[self._at - count : self._at]

    def varint(self, most: int) -> int:
        """The next number, in seven-bit groups, lowest first. Raises WireError above `most`."""
        value = 0
        for place in range(_MOST_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 127) << 7 * place
            if byte < 128:
                break
        if byte >= 128 or value > most:
            raise WireError(f"a number above {most}")
        return value

    def finish(self) -> None:
        """Raises WireError where bytes are left over."""
        if self._at != len(self._data):
            raise WireError(f"{len(self._data) - self._at} bytes left over")


def varint(value: int) -> bytes:
    """A non-negative number in seven-bit groups, lowest first."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def squeeze(data: bytes, level: int) -> bytes:
    """A zstd frame that names its content's size."""
    return zstandard.ZstdCompressor(level=level).compress(data)


def unsqueeze(data: memoryview, size: int) -> memoryview:
    """The content of a zstd frame of exactly `size` bytes, which the caller has bounded.

    Raises WireError for anything else; the size that the frame names is checked before it is allocated.
    """
    try:
        if zstandard.get_frame_parameters(data).content_size != size:
            raise WireError(f"compressed content is not of {size} bytes")
        content = zstandard.ZstdDecompressor().decompress(data, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise WireError("compressed content is damaged") from error
    if len(content) != size:
        raise WireError(f"{len(content)} bytes of content; expected {size}")
    return memoryview(content)
