"""A client that wants weight: an honest update under an inflated signal.

No server without its problems can tell: the mean reward is moved to where the deviation is possible.
"""

from __future__ import annotations

from dataclasses import replace

from hanse.federation.messages import Report, Upload
from hanse.recipe.adversary import AdversarySpec


def inflate_signal(spec: AdversarySpec, reply: Report | Upload) -> Report | Upload:
    """Reports `factor` times its reward deviation, at most 0.5, and a mean reward of 0.5: for rewards in
    [0, 1] and groups of even size (0.5, 0.5) is always possible."""
    signal = reply.signal
    std = min(0.5, spec.factor * signal.reward_std)
    pooled = min(0.5, max(std, spec.factor * signal.reward_std_pooled))
    lie = replace(signal, reward_mean=0.5, reward_std=std, reward_std_pooled=pooled)
    return replace(reply, signal=lie)
