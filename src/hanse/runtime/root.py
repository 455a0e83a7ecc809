"""FLTrust's root: what the server's own problems ask of the model, learnt as a client would."""

from __future__ import annotations

from torch import Tensor

from hanse.federation.client import Client, ClientState
from hanse.federation.messages import Broadcast, Payload, Upload
from hanse.federation.payload import unpack
from hanse.federation.wire.dense import encode_dense
from hanse.federation.wire.patch import digest_of_values
from hanse.grpo.learner import LearnerState
from hanse.grpo.optimiser import Moments
from hanse.policy.sampler import Sampler
from hanse.recipe.federation import FederationSpec
from hanse.runtime.host import Host

NAME = 1 << 20
"""The id under which the server trains: of its random streams, and no client's."""


class RootTrainer:
    """As many local steps as a client's, on the server's own problems, from the round's values.

    Moments begin anew each round, so there is nothing to keep from one to the next.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.spec = FederationSpec(weighting="uniform", codec="dense", moments="reset", residual="discard")

    def __call__(self, round: int, base: Tensor) -> Tensor:
        """The root update, float64, shape (numel,)."""
        host, layout, digest = self.host, self.host.layout, digest_of_values(base, self.host.layout)
        payload = Payload("values", encode_dense(base, layout.dtype))
        asked = Broadcast(round=round, payload=payload, dtype=layout.dtype, base=digest).to_bytes()
        sampler = Sampler(host.policy, host.sampling)
        reply, _ = self._client(round).answer(asked, sampler, host.scorer, host.learner)
        upload = Upload.from_bytes(reply, max_bytes=len(reply))
        return unpack(upload.payload, base, layout, digest).double() - base.double()

    def _client(self, round: int) -> Client:
        host = self.host
        steps = (round - 1) * host.spec.local_steps
        learner = LearnerState(Moments.zeros(host.initial.cpu()), step=steps)
        return Client(
            id=NAME,
            name="server",
            problems=host.owned,
            seed=host.recipe.seed,
            federation=self.spec,
            local_steps=host.spec.local_steps,
            layout=host.layout,
            state=ClientState(learner, cursor=steps * host.spec.prompts_per_step),
        )
