"""Every token again, from the slot's own random stream (Token-DiFR, 2511.20621)."""

from __future__ import annotations

from torch import Tensor

from hanse.recipe.swarm import ReplayDefence
from hanse.swarm.defences.base import Finding, View


def replay(spec: ReplayDefence, view: View, accepted_N: Tensor) -> Finding:
    """The token that the stream gives wins by `tolerance` at most. A node that sends anything else than its
    own sample has no second draw, so that choosing among samples (DoS) is seen as well as writing.

    What remains to an attacker are places where two candidates tie within the tolerance, of which `ties`
    bounds the use. `sites` is how many accepted tokens made use of one, `tied` how many completions have too
    many. Score: the largest lead over a token that `violations` do not excuse.
    """
    lead = view.real(view.readings.replay_NT)
    score = lead.new_zeros(view.size)
    if spec.violations < lead.shape[1]:
        score = lead.topk(spec.violations + 1, dim=1).values[:, -1]
    near = ((lead > 0) & (lead <= spec.tolerance)).sum(1)
    beyond = score > spec.tolerance
    tied = ~beyond & (near > (spec.ties * view.lengths_N.double()).ceil())
    rejected = beyond | tied
    sites = (lead > 0).sum(1)[accepted_N & ~rejected].sum()
    figures = {"sites": float(sites), "tied": float((tied & accepted_N).sum())}
    return Finding(rejected, score, figures=figures)
