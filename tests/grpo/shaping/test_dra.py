"""DRA against values worked out by hand and the promises of its equation."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hanse.grpo.advantages import EPSILON, group_advantages
from hanse.grpo.shaping import dra
from hanse.grpo.shaping.embedders import ngram_counts
from hanse.grpo.shaping.shape import shape_rewards
from hanse.recipe.shaping import DraSpec, ShapingSpec
from tests.grpo.shaping.groups import group_of

ALL = torch.ones(6, dtype=torch.bool)


def tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def shaped(texts: list[list[str]], rewards: list[list[float]], **changes: object) -> tuple[Tensor, dict]:
    spec = ShapingSpec(dra=DraSpec(enabled=True, **changes))
    groups = [group_of(f"p{p}", row) for p, row in enumerate(texts)]
    found = shape_rewards(groups, texts, torch.tensor(rewards, dtype=torch.float64), spec, 0.0)
    return found.rewards_PG, found.metrics


def test_equal_completions_share_one_reward_among_them() -> None:
    similar = dra.similarities(torch.ones(6, 3, dtype=torch.float64))
    assert dra.divisors(similar, ALL).tolist() == pytest.approx([6.0] * 6, rel=1e-12)


def test_completions_with_nothing_in_common_keep_theirs() -> None:
    similar = dra.similarities(torch.eye(6, dtype=torch.float64))
    assert dra.divisors(similar, ALL).tolist() == [1.0] * 6


def test_by_hand() -> None:
    # unit vectors at 0°, 60° and 180°: cosines 0.5, -1 (cut to 0), -0.5 (cut to 0)
    rows = [[1.0, 0.0], [0.5, math.sqrt(3) / 2], [-2.0, 0.0]]
    divisors = dra.divisors(dra.similarities(torch.tensor(rows, dtype=torch.float64)), ALL[:3])
    assert divisors.tolist() == pytest.approx([1.5, 1.5, 1.0], rel=1e-12)
    given_ = tensor([3.0, -3.0, 2.0])
    assert dra.adjusted(given_, divisors).tolist() == pytest.approx([2.0, -3.0, 2.0])
    assert dra.adjusted(given_, divisors, positive_only=False).tolist() == pytest.approx([2.0, -2.0, 2.0])
    mean = 4 / 3
    normalised = dra.adjusted(given_, divisors, normalise=True).tolist()
    assert normalised == pytest.approx([2.0 * mean, -3.0, 2.0 * mean])


def test_an_unscored_completion_counts_nowhere() -> None:
    similar = dra.similarities(torch.ones(3, 2, dtype=torch.float64))
    divisors = dra.divisors(similar, torch.tensor([True, False, True]))
    assert divisors.tolist() == pytest.approx([2.0, 1.0, 2.0])
    out = dra.adjusted(tensor([1.0, math.nan, 1.0]), divisors)
    assert out[0] == pytest.approx(0.5) and bool(out[1].isnan())


def test_the_novel_right_one_has_the_largest_advantage_in_both_forms() -> None:
    texts = [["2 + 3 = 5 ; 5 + 4 = 9"] * 5 + ["3 + 4 = 7 ; 7 + 2 = 9"]]
    rewards, _ = shaped(texts, [[1.0] * 6], skip_equal=False)
    for scale in ("group", "none"):
        advantages = group_advantages(rewards, scale=scale)[0]
        assert int(advantages.argmax()) == 5
        assert advantages[5] > 0 > advantages[0]


def test_groups_of_equal_rewards_stay_without_advantage_unless_asked() -> None:
    texts = [["a b c d", "a b c e", "x y z w"]]
    kept, metrics = shaped(texts, [[1.0] * 3])
    assert kept.tolist() == [[1.0] * 3]
    assert metrics["shaping/dra_equal_groups"] == 1.0
    assert group_advantages(kept).tolist() == [[0.0] * 3]
    noisy, _ = shaped(texts, [[1.0] * 3], skip_equal=False)
    # as published: scaled up to full strength by a deviation that is the embedder's alone
    assert float(group_advantages(noisy).abs().max()) > 0.5


def test_the_std_and_the_dr_form_by_hand() -> None:
    texts = [["same text", "same text", "unlike, quite", "nothing!"]]
    rewards, metrics = shaped(texts, [[1.0, 1.0, 0.0, 0.0]], ngram=9, width=1 << 16)
    assert rewards[0].tolist() == pytest.approx([0.5, 0.5, 0.0, 0.0])
    assert metrics["shaping/dra_factor"] == pytest.approx(0.5)
    std = math.sqrt(4 * 0.25**2 / 3)
    with_std = [0.25 / (std + EPSILON)] * 2 + [-0.25 / (std + EPSILON)] * 2
    assert group_advantages(rewards)[0].tolist() == pytest.approx(with_std)
    assert group_advantages(rewards, scale="none")[0].tolist() == pytest.approx([0.25, 0.25, -0.25, -0.25])
    normal, _ = shaped(texts, [[1.0, 1.0, 0.0, 0.0]], ngram=9, width=1 << 16, normalise=True)
    assert normal[0].tolist() == pytest.approx([0.75, 0.75, 0.0, 0.0])


WORDS = st.lists(st.sampled_from(["1 + 2", "3 + 4 = 7", "x", "", "1 + 2 = 3 ; 3"]), min_size=4, max_size=4)


@given(
    WORDS, st.permutations(range(4)), st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.0]), min_size=4, max_size=4)
)
def test_permuting_a_group_permutes_its_rewards(
    words: list[str], order: list[int], given_: list[float]
) -> None:
    straight, _ = shaped([words], [given_])
    turned, _ = shaped([[words[i] for i in order]], [[given_[i] for i in order]])
    torch.testing.assert_close(turned[0], straight[0][order], rtol=1e-12, atol=1e-12)
    assert bool((straight[0][tensor(given_) <= 0] == tensor(given_)[tensor(given_) <= 0]).all())
    assert bool((straight[0] <= tensor(given_) + 1e-12).all())


def test_other_prompts_in_the_step_change_nothing() -> None:
    mine, theirs = ["a b c", "a b d"], ["a b c", "a b c"]
    alone, _ = shaped([mine], [[1.0, 0.0]])
    beside, _ = shaped([theirs, mine], [[1.0, 0.0], [1.0, 0.0]])
    assert torch.equal(alone[0], beside[1])


def test_ngrams_are_counted_the_same_everywhere() -> None:
    counts = ngram_counts(["abab", "", "ba"], 2, 1 << 12)
    # with marks at both ends: .a ab ba ab b. -> 5; "" leaves the two marks -> 1; .b ba a. -> 3
    assert counts.sum(-1).tolist() == [5.0, 1.0, 3.0]
    assert counts[0].max() == 2.0
    hashed = 0
    for byte in b"ab":
        hashed = (hashed ^ byte) * 0x9E3779B97F4A7C15 % 2**64
        hashed ^= hashed >> 29
    assert int(counts[0].argmax()) == (hashed * 0xBF58476D1CE4E5B9 % 2**64 >> 32) % 4096
    similar = dra.similarities(counts)
    assert float(similar[0, 2]) == pytest.approx(1 / math.sqrt(7 * 3))
    assert float(similar[0, 1]) == 0.0
