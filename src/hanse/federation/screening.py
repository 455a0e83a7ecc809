"""What a server accepts: every upload is read here first, and a bad one is counted, never fatal."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hanse.federation.messages import Broadcast, Upload, max_message_bytes
from hanse.federation.wire.dense import decode_dense
from hanse.federation.wire.frame import WireError


@dataclass(frozen=True)
class Screened:
    """An upload that passed, and the norm of its update; or the reason why it did not pass.

    Values stay encoded here: the server decodes one client's at a time.
    """

    client: int
    upload: Upload | None
    norm: float = 0.0
    reason: str | None = None


def screen(data: bytes, client: int, broadcast: Broadcast, base: Tensor) -> Screened:
    """Check one client's bytes against the open round: form, size, round, base, sender, finite values.

    `base` holds the broadcast's values, shape (numel,).
    """
    numel = base.numel()
    try:
        upload = Upload.from_bytes(data, max_bytes=max_message_bytes(numel, broadcast.dtype))
        if upload.client != client:
            raise WireError("speaks in another client's name")
        if upload.round != broadcast.round:
            raise WireError(f"is for round {upload.round}, not {broadcast.round}")
        if upload.base != broadcast.base:
            raise WireError("was trained from another base")
        if upload.dtype != broadcast.dtype:
            raise WireError("has another dtype")
        values = decode_dense(upload.values, upload.dtype, numel)
    except WireError as error:
        return Screened(client, None, reason=str(error))
    return Screened(client, upload, float((values.double() - base.double()).norm()))
