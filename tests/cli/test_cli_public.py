"""What `hanse check` says of public steps."""

from __future__ import annotations

from hanse.cli import estimate
from hanse.cli.batch import batch_in_words
from hanse.cli.partition import partition_or_reason
from hanse.cli.sizes import Sizes
from hanse.federation.public.messages import Limits, Pool, Shown
from hanse.recipe.load import load_recipe

KNOWN = Sizes(total=1000, trainable=1000, vocabulary=14, cache_width=8)


def recipe(clients=6, **public):
    grpo = {"group_size": 4, "max_new_tokens": 5}
    own = {"problems": 64, "per_round": 10, "most": 2, "every": 3}
    federation = {"public": own | public}
    partition = {"clients": clients}
    return load_recipe({"rounds": 7, "grpo": grpo, "federation": federation, "partition": partition})


def by_name(lines) -> dict[str, int]:
    return {line.what: line.size for line in lines}


def test_answers_by_hand():
    found = by_name(estimate.traffic(recipe(), KNOWN))
    up = 6 * 10 * 2 * (5 * 4 + 8)
    assert (found["answers up, a round"], found["answers down, a round"]) == (up, 4 * up)
    assert found["both, whole run"] == 7 * (found["up, a round"] + found["down, a round"]) + 2 * 5 * up
    assert by_name(estimate.traffic(recipe(clients=3), KNOWN))["answers down, a round"] == 2 * 3 * 10 * 2 * 28


def test_real_messages_are_no_larger_but_for_headers():
    spec = recipe().federation.public
    ids = (70000,) * 5
    shown = Shown(3, 0, (4,) * 10, ((ids,) * 2,) * 10).to_bytes()
    pool = Pool(3, 0, ((ids,) * 8,) * 10, (1,) * 80).to_bytes()
    found = by_name(estimate.traffic(recipe(), KNOWN))
    header = 300
    assert len(shown) <= found["answers up, a round"] // 6 + header
    assert len(pool) <= found["answers down, a round"] // 6 + header
    assert len(pool) <= Limits.of_pool(spec, 5).bytes


def test_nothing_is_said_where_nothing_travels():
    plain = by_name(estimate.traffic(load_recipe({"rounds": 7, "partition": {"clients": 6}}), KNOWN))
    assert by_name(estimate.traffic(recipe(most=0), KNOWN)) == plain
    assert by_name(estimate.traffic(recipe(every=0), KNOWN)) == plain


def test_the_batch_counts_public_rollouts():
    assert "Public steps: 2, each 10 problems × 4 × 6 = 240 completions on top." in batch_in_words(recipe())
    assert "Public" not in " ".join(batch_in_words(recipe(every=0)))


def test_the_table_of_problems_is_without_those_that_are_public():
    def total(**public) -> int:
        table, _ = partition_or_reason(recipe(**public))
        assert table is not None
        return int(list(table.columns[1].cells)[-1].replace(",", ""))

    assert total(every=0) - total() >= 64
