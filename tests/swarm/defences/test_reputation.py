from __future__ import annotations

import json

from hanse.recipe.swarm import ReputationDefence
from hanse.swarm.defences import DEFENCES
from swarm.made import sent, verdicts, view

reputation = DEFENCES["reputation"]
MADE = [sent(0, 0), sent(0, 1), sent(1, 2), sent(1, 3)]


def rounds(spec, accepted, times):
    memory, found = {}, []
    for _ in range(times):
        seen = view(MADE, memory=memory)
        finding = reputation(spec, seen, seen.lengths_N.new_tensor(accepted).bool())
        memory = json.loads(json.dumps(finding.memory))
        found.append(finding)
    return found, memory


def test_the_share_that_is_left():
    """Prior 9 : 1. Node 1 has lost both each round: (9 + 0) / (10 + 2 n) is below a half from n = 5 on."""
    found, memory = rounds(ReputationDefence(), [1, 1, 0, 0], 7)
    assert [f.rejected_N.tolist() for f in found] == [[False] * 4] * 4 + [[False, False, True, True]] * 3
    assert float(found[0].score_N[2]) == 1 - 9 / 12
    assert memory == {"counts": {"0": [14, 0], "1": [0, 10]}, "evicted": [1]}


def test_who_is_out_stays_out():
    spec = ReputationDefence(prior=(1, 1), evict_below=0.3)
    _, memory = rounds(spec, [1, 1, 0, 0], 2)
    seen = view(MADE, memory=memory)
    assert verdicts(reputation, spec, seen) == [False, False, True, True]


def test_a_half_is_not_below_a_half():
    found, _ = rounds(ReputationDefence(prior=(1, 1)), [1, 0, 1, 0], 6)
    assert not any(f.rejected_N.any() for f in found)
