"""Where a completion ends."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.recipe.swarm import LengthDefence
from hanse.swarm.defences.base import Finding, View
from hanse.swarm.delivery import Tokens


def length(spec: LengthDefence, view: View, accepted_N: Tensor) -> Finding:
    """At most `limit` tokens, an end token only at the end, and without one exactly as many as the sampler
    draws; the sender says the same of the end as the tokens do. Of text the receiver can only tell that it
    is not too long: another tokenizer cuts it elsewhere. Score: the length."""
    limit = spec.limit or view.sampling.max_new_tokens
    lengths = view.lengths_N
    tokens = torch.tensor([isinstance(d.completion, Tokens) for d in view.deliveries_N], dtype=torch.bool)
    said = torch.tensor([d.finish == "stop" for d in view.deliveries_N], dtype=torch.bool)
    ends = torch.isin(view.tokens_NT, torch.tensor(list(view.eos_ids), dtype=torch.int64))
    last = torch.arange(view.tokens_NT.shape[1]) == lengths.unsqueeze(1) - 1
    goes_on = (ends & view.mask_NT & ~last).any(1)
    cut = ~view.terminated_N & (lengths != view.sampling.max_new_tokens)
    odd = tokens & (goes_on | cut | (said != view.terminated_N))
    return Finding((lengths > limit) | (lengths < 1) | odd, lengths.float())
