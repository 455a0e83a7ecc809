import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.errors import RecipeError
from hanse.recipe.model import PartitionSpec
from hanse.tasks.partition import build_partition, partition_table
from hanse.tasks.problem import Problem


def problems(*levels):
    return [Problem(f"p{i}", "q", "a", {"level": level}) for i, level in enumerate(levels)]


def test_by_column_sorted_and_named():
    clients = build_partition(PartitionSpec(clients=3, by="column"), problems(2, 10, 1, 2), seed=0)
    assert [(c.name, [p.id for p in c.problems]) for c in clients] == [
        ("level-1", ["p2"]),
        ("level-2", ["p0", "p3"]),
        ("level-10", ["p1"]),
    ]


def test_several_clients_share_a_value():
    rows = problems(*[1] * 7, *[2] * 4)
    clients = build_partition(PartitionSpec(clients=6, by="column", clients_per_value=3), rows, seed=0)
    assert [c.name for c in clients] == [f"level-{level}.{i}" for level in (1, 2) for i in (1, 2, 3)]
    assert [len(c.problems) for c in clients] == [3, 2, 2, 2, 1, 1]
    assert sorted(p.id for c in clients for p in c.problems) == sorted(p.id for p in rows)
    assert all(len({p.metadata["level"] for p in c.problems}) == 1 for c in clients)
    other = build_partition(PartitionSpec(clients=6, by="column", clients_per_value=3), rows, seed=1)
    assert [c.problems for c in clients] != [c.problems for c in other]


def test_names_are_safe_in_paths_and_do_not_repeat_the_column():
    clients = build_partition(
        PartitionSpec(clients=2, by="column"), problems("Level 1", "../Level 2"), seed=0
    )
    assert [c.name for c in clients] == ["level-2", "level-1"]
    clients = build_partition(PartitionSpec(clients=2, by="column"), problems("a b", "a/b"), seed=0)
    assert [c.name for c in clients] == ["level-a-b", "level-a-b-2"]


def test_wrong_number_of_clients_names_the_field_and_the_value():
    with pytest.raises(RecipeError) as caught:
        build_partition(PartitionSpec(clients=5, by="column"), problems(1, 2, 3), seed=0)
    assert caught.value.field == "partition.clients"
    assert "partition.clients = 3" in caught.value.remedy


@pytest.mark.parametrize("by", ["column", "dirichlet"])
def test_missing_column_names_those_that_exist(by):
    spec = PartitionSpec(clients=2, by=by, column="topic")
    with pytest.raises(RecipeError) as caught:
        build_partition(spec, problems(1, 2), seed=0)
    assert caught.value.field == "partition.column"
    assert "'level'" in caught.value.remedy


def test_a_value_that_is_missing_or_a_list_is_refused():
    for value in (None, [1]):
        with pytest.raises(RecipeError, match=r"partition\.column"):
            build_partition(PartitionSpec(clients=2, by="column"), problems(1, value), seed=0)


@pytest.mark.parametrize("by", ["iid", "size-skewed", "dirichlet"])
def test_empty_clients_are_refused(by):
    with pytest.raises(RecipeError, match="gets none of the 2 problems"):
        build_partition(PartitionSpec(clients=5, by=by, alpha=3), problems(1, 2), seed=0)


def test_iid_sizes_differ_by_one_at_most():
    clients = build_partition(PartitionSpec(clients=3, by="iid"), problems(*[1] * 11), seed=0)
    assert sorted(len(c.problems) for c in clients) == [3, 4, 4]
    assert [c.name for c in clients] == ["client-1", "client-2", "client-3"]


def test_sizes_follow_the_power_law():
    """k^-1 for three clients: shares 6/11, 3/11, 2/11."""
    spec = PartitionSpec(clients=3, by="size-skewed", alpha=1)
    clients = build_partition(spec, problems(*[1] * 1100), seed=0)
    assert [len(c.problems) for c in clients] == [600, 300, 200]


def test_dirichlet_is_skewed_at_small_alpha_and_even_at_large():
    levels = [1, 2, 3, 4] * 250

    def spread(alpha):
        clients = build_partition(
            PartitionSpec(clients=4, by="dirichlet", alpha=alpha), problems(*levels), seed=1
        )
        table = partition_table(clients, "level")
        return max(max(row["counts"].values()) / row["problems"] for row in table)

    assert spread(0.3) > 0.6
    assert spread(1000.0) < 0.35


@settings(max_examples=60, deadline=None)
@given(
    by=st.sampled_from(["iid", "dirichlet", "size-skewed"]),
    levels=st.lists(st.integers(1, 4), min_size=1, max_size=60),
    clients=st.integers(1, 4),
    alpha=st.floats(0.2, 5),
    seed=st.integers(0, 2**31 - 1),
)
def test_every_problem_has_exactly_one_owner_and_the_seed_decides(by, levels, clients, alpha, seed):
    spec, pool = PartitionSpec(clients=clients, by=by, alpha=alpha), problems(*levels)
    try:
        parts = build_partition(spec, pool, seed)
    except RecipeError as error:
        assert "gets none" in error.problem
        return
    assert sorted(p.id for c in parts for p in c.problems) == sorted(p.id for p in pool)
    assert all(c.problems for c in parts)
    assert parts == build_partition(spec, pool, seed)


def test_seeds_give_different_partitions():
    spec, pool = PartitionSpec(clients=2), problems(*range(50))
    assert build_partition(spec, pool, 0) != build_partition(spec, pool, 1)


def test_table():
    clients = build_partition(PartitionSpec(clients=2, by="column"), problems(1, 2, 1), seed=0)
    assert partition_table(clients, "level") == [
        {"client": "level-1", "problems": 2, "counts": {"1": 2}},
        {"client": "level-2", "problems": 1, "counts": {"2": 1}},
    ]
    assert partition_table(clients, "topic")[0]["counts"] == {}


def test_names_never_collide():
    clients = build_partition(PartitionSpec(clients=3, by="column"), problems("x", "x-3", "x_"), seed=0)
    assert len({c.name for c in clients}) == 3
