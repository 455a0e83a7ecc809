from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from hanse.recipe.swarm import LengthsDefence
from hanse.swarm.defences import DEFENCES
from hanse.swarm.defences.lengths import rank_z
from swarm.made import owners, sent, verdicts, view

lengths = DEFENCES["lengths"]


def completions(*by_node: list[int]):
    """One completion of each length."""
    return [sent(node, i, tuple(range(n))) for node, ns in enumerate(by_node) for i, n in enumerate(ns)]


def test_z_by_hand():
    """Ranks 3, 5 of 1..5: U = 8 - 3 = 5 of 6, mean 3, variance 6 / 12 * 6 = 3."""
    assert rank_z([30, 50], [10, 20, 40]) == pytest.approx((5 - 3 - 0.5) / 3**0.5)
    assert rank_z([10, 20, 40], [30, 50]) == pytest.approx(-(5 - 3 - 0.5) / 3**0.5)


def test_z_with_ties_by_hand():
    """Ranks 1.5, 1.5, 3.5, 3.5: U = 5 - 3 = 2, mean 2; and all alike says nothing."""
    assert rank_z([1, 2], [1, 2]) == 0.0
    assert rank_z([7] * 5, [7] * 9) == 0.0
    assert rank_z([], [3]) == rank_z([3], []) == 0.0
    expected_variance = 4 / 12 * (5 - (2**3 - 2 + 2**3 - 2) / 12)
    assert rank_z([2, 2], [1, 1]) == pytest.approx((4 - 2 - 0.5) / expected_variance**0.5)


def test_z_has_the_variance_of_all_arrangements():
    values = [1, 2, 2, 3, 5, 5, 5]
    us = []
    for chosen in combinations(range(7), 3):
        mine = [values[i] for i in chosen]
        others = [values[i] for i in range(7) if i not in chosen]
        us.append(sum((a > b) + 0.5 * (a == b) for a in mine for b in others))
    top = max(us)
    assert rank_z([5, 5, 5], [1, 2, 2, 3]) == pytest.approx((top - 6 - 0.5) / np.std(us))


def test_a_node_of_long_answers_is_rejected_as_a_whole():
    honest = [10, 11, 12, 13, 14, 15] * 4
    made = completions(honest, honest, [n + 8 for n in honest])
    seen = view(made, assignment=owners(3, each=24))
    assert verdicts(lengths, LengthsDefence(), seen) == [False] * 48 + [True] * 24


def test_short_answers_are_no_offence():
    honest = [10, 11, 12, 13, 14, 15] * 4
    seen = view(completions(honest, honest, [n - 8 for n in honest]))
    assert verdicts(lengths, LengthsDefence(), seen) == [False] * 72


def test_only_rewarded_and_accepted_ones_count():
    honest = [10, 11, 12, 13, 14, 15] * 4
    made = completions(honest, honest, [n + 8 for n in honest])
    wrong = view(made, rewards=[1.0] * 48 + [0.0] * 24)
    assert verdicts(lengths, LengthsDefence(), wrong) == [False] * 72
    rejected = [True] * 48 + [False] * 24
    assert verdicts(lengths, LengthsDefence(), view(made), rejected) == [False] * 72


def test_what_is_too_little_in_one_round_adds_up():
    made = completions([10, 11, 12, 13] * 2, [10, 11, 12, 13] * 2, [13, 14, 15, 16] * 2)
    memory, found = {}, []
    for _ in range(4):
        seen = view(made, memory=memory)
        finding = lengths(LengthsDefence(memory=3), seen, seen.rewards_N > 0)
        memory = json.loads(json.dumps(finding.memory))
        found.append(finding.rejected_N.tolist())
        assert not finding.rejected_N[:16].any()
    assert not any(found[0]) and all(found[3][16:])
    assert len(memory["rounds"]) == 3 and memory["rounds"][0]["2"] == [13, 14, 15, 16] * 2


def test_honest_nodes_are_left_alone():
    """400 rounds of four nodes with memory: at p = 1e-4, twice a round, 0.3 rejections are expected."""
    random = np.random.default_rng(1)
    memory, rejected = {}, 0
    for _ in range(400):
        drawn = [(8 + random.geometric(0.2, 24)).tolist() for _ in range(4)]
        seen = view(completions(*drawn), memory=memory)
        finding = lengths(LengthsDefence(), seen, seen.rewards_N > 0)
        memory, rejected = finding.memory, rejected + int(finding.rejected_N.any())
    assert rejected <= 2


def test_the_receivers_own_are_among_the_others():
    """Of two nodes, one is the receiver: there is nobody else to compare with."""
    honest = [10, 11, 12, 13, 14, 15] * 4
    seen = view(completions([n + 8 for n in honest]), assignment=owners(1, each=24))
    assert verdicts(lengths, LengthsDefence(), seen) == [False] * 24
    assert verdicts(lengths, LengthsDefence(), replace(seen, own_lengths=honest)) == [True] * 24
    found = lengths(LengthsDefence(), replace(seen, own_lengths=honest), torch.ones(24, dtype=torch.bool))
    assert found.memory["rounds"][0]["own"] == honest
