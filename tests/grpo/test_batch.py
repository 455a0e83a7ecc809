from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.grpo.batch import (
    Batch,
    fitting_micro_batch,
    micro_batches,
    pack,
    totals,
    without_idle_groups,
)
from hanse.policy.rollout import Group
from hanse.tasks.problem import Problem


def group(
    lengths: list[int], advantages: list[float], *, width: int = 4, terminated: bool = True, kept: float = 0.0
) -> Group:
    G = len(lengths)
    tokens = torch.arange(G * width).view(G, width) + 10
    return Group(
        problem=Problem("p", "1+1="),
        prompt_ids=tuple(range(2, 2 + lengths[0])),
        tokens_GT=tokens,
        lengths_G=torch.tensor(lengths),
        terminated_G=torch.tensor([terminated and n < width for n in lengths]),
        logp_GT=-tokens.float() / 100,
        kept_logp_GT=torch.full((G, width), kept) if kept else None,
        rewards_G=torch.tensor(advantages, dtype=torch.float64),
        advantages_G=torch.tensor(advantages, dtype=torch.float64),
    )


def test_masks_come_from_lengths_and_rows_are_padded_to_the_longest_completion():
    batch = pack([group([1, 3], [1, -1], width=3), group([2, 5], [0.5, -0.5], width=5)])
    assert batch.tokens_PGT.shape == (2, 2, 5)
    assert batch.mask_PGT.long().tolist() == [
        [[1, 0, 0, 0, 0], [1, 1, 1, 0, 0]],
        [[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]],
    ]
    assert batch.advantages_PG.dtype == torch.float32
    assert torch.equal(batch.behaviour_logp_PGT, batch.sampler_logp_PGT)
    assert batch.rollouts == 4


def test_the_behaviour_log_prob_is_that_of_the_truncated_distribution():
    batch = pack([group([4, 4], [1, -1], kept=-0.25)])
    assert torch.equal(batch.behaviour_logp_PGT, batch.sampler_logp_PGT + 0.25)


def test_unscored_and_truncated_rollouts_are_inactive():
    g = group([2, 4, 3], [1.0, -1.0, float("nan")])
    assert pack([g]).mask_PGT[0].any(-1).tolist() == [True, True, False]
    assert pack([g], mask_truncated=True).mask_PGT[0].any(-1).tolist() == [True, False, False]


def test_a_group_without_advantages_is_refused():
    g = group([2, 2], [1, -1])
    g.advantages_G = None
    with pytest.raises(ValueError, match="has no advantages"):
        pack([g])


def test_totals_count_active_rollouts_and_tokens():
    whole = pack([group([2, 4], [1, float("nan")]), group([3, 1], [1, -1])])
    part = whole.select(slice(0, 1))
    found = totals(part, whole, 2, 7)
    assert (found.sequences, found.tokens, found.batch_tokens) == (1, 2, 6 / 2)
    assert (found.slots, found.max_tokens) == (2, 7)


def test_idle_groups_are_left_out_only_if_none_of_their_active_rollouts_has_an_advantage():
    idle = group([2, 2], [0.0, 0.0])
    masked = group([4, 4], [1.0, -1.0], terminated=False)
    busy = group([2, 3], [0.0, 2.0])
    batch = pack([idle, masked, busy], mask_truncated=True)
    kept = without_idle_groups(batch)
    assert kept.advantages_PG.tolist() == [[0.0, 2.0]]
    assert kept.tokens_PGT.shape == (1, 2, 3)
    assert kept.prompts_P == [busy.prompt_ids]
    assert without_idle_groups(pack([busy])).rollouts == 2


def test_select_cuts_to_the_longest_completion_and_keeps_old_log_probs():
    batch = pack([group([1, 2], [1, -1]), group([4, 3], [1, -1])])
    batch = Batch(**{**batch.__dict__, "old_logp_PGT": batch.sampler_logp_PGT + 1})
    first = batch.select(slice(0, 1))
    assert first.tokens_PGT.shape == (1, 2, 2)
    assert first.old_logp_PGT is not None
    assert torch.equal(first.old_logp_PGT, batch.old_logp_PGT[:1, :, :2])
    assert batch.select([1], slice(1, 2)).lengths_PG.tolist() == [[3]]


@given(P=st.integers(1, 5), G=st.integers(2, 6), wanted=st.integers(1, 40), data=st.data())
def test_micro_batches_partition_the_batch(P: int, G: int, wanted: int, data: st.DataObject):
    length = st.lists(st.integers(1, 4), min_size=G, max_size=G)
    groups = [group(data.draw(length), [float(i * G + j) for j in range(G)]) for i in range(P)]
    batch = pack(groups)
    size = fitting_micro_batch(wanted, G)
    parts = list(micro_batches(batch, size))
    assert all(part.rollouts <= max(size, 1) for part in parts)
    seen = torch.cat([part.advantages_PG.reshape(-1) for part in parts])
    assert sorted(seen.tolist()) == [float(i) for i in range(P * G)]
    active = torch.cat([part.tokens_PGT[part.mask_PGT] for part in parts])
    assert sorted(active.tolist()) == sorted(batch.tokens_PGT[batch.mask_PGT].tolist())
    whole = totals(batch, batch, 1, 4)
    split = [totals(part, batch, 1, 4) for part in parts]
    for field in ("sequences", "tokens", "slots"):
        assert sum(getattr(t, field) for t in split) == getattr(whole, field)


@given(wanted=st.integers(0, 100), G=st.integers(1, 32))
def test_the_fitting_micro_batch_is_the_largest_valid_one(wanted: int, G: int):
    def valid(n: int) -> bool:
        return n % G == 0 or G % n == 0

    size = fitting_micro_batch(wanted, G)
    assert size >= 1 and valid(size) and size <= max(1, wanted)
    assert not any(valid(n) for n in range(size + 1, wanted + 1))


def test_every_tensor_of_a_batch_is_selected():
    batch = pack([group([2, 2], [1, -1]), group([2, 2], [1, -1])])
    part = batch.select(slice(1, 2))
    for field in fields(Batch):
        whole, chosen = getattr(batch, field.name), getattr(part, field.name)
        if whole is not None:
            assert len(chosen) == 1
