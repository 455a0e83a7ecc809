"""A client's session as bytes, for a process that ends between two messages. Secrets are in it: it stays on
the client's own disk, and those of a round that is over are gone from it."""

from __future__ import annotations

from typing import Any

from hanse.federation.secure.messages import Invitation
from hanse.federation.secure.session import Session
from hanse.federation.wire.frame import WireError, decode_frame, encode_frame
from hanse.federation.wire.frame import field as read
from hanse.privacy.secure.fixed_point import Grid
from hanse.privacy.secure.party import Party
from hanse.privacy.secure.protocol import Secrets

_KIND = "secure-session"


def pack_session(session: Session) -> bytes:
    party = session.party
    sealed, kinds = sorted(party.sealed), sorted(session.answered)
    fields: dict[str, Any] = {
        "round": session.round,
        "me": party.me,
        "stage": party.stage,
        "threshold": party.threshold,
        "sealed": sealed,
        "kinds": kinds,
        "reach": session.reach,
        "grid": None if session.grid is None else [session.grid.bits, session.grid.modulus],
    }
    invitation = b"" if session.invitation is None else session.invitation.to_bytes()
    secrets = [party.secrets.seal, party.secrets.mask, party.secrets.seed]
    buffers = [party.context, *secrets, party.own, invitation, *(party.sealed[k] for k in sealed)]
    return encode_frame(_KIND, fields, [*buffers, *(part for k in kinds for part in session.answered[k])])


def unpack_session(data: bytes) -> Session:
    """What `pack_session` packed. Raises WireError for anything else."""
    frame = decode_frame(data, kind=_KIND, max_bytes=len(data))
    context, seal, mask, seed, own, invited, *rest = map(bytes, frame.buffers)
    sealed, kinds, grid = read(frame, "sealed", list), read(frame, "kinds", list), frame.fields["grid"]
    if len(rest) != len(sealed) + 2 * len(kinds):
        raise WireError("is not the session that was packed")
    invitation = Invitation.from_bytes(invited) if invited else None
    party = Party(
        read(frame, "me", int),
        context,
        Secrets(seal, mask, seed),
        frame.fields["stage"],
        {} if invitation is None else invitation.peers,
        read(frame, "threshold", int),
        own,
        dict(zip(sealed, rest, strict=False)),
    )
    answers = rest[len(sealed) :]
    answered = {kind: (answers[2 * i], answers[2 * i + 1]) for i, kind in enumerate(kinds)}
    known = None if grid is None or invitation is None else Grid(invitation.reach, *grid)
    reach = read(frame, "reach", (float, type(None)))
    return Session(read(frame, "round", int), party, invitation, known, answered, reach)
