"""What is told of clients' privacy, whatever they say of it themselves."""

from __future__ import annotations

import pytest

from hanse.privacy.guarantee import COVERED, UNBOUNDED
from hanse.recipe.load import load_recipe
from hanse.runs.evaluating import Levels
from hanse.runs.model_card import model_card
from hanse.runs.spending import Spending
from hanse.tasks.partition import ClientData
from hanse.tasks.problem import Problem

RECIPE = load_recipe({"privacy": {"enabled": True, "epsilon": 4.0}, "federation": {"weighting": "uniform"}})
NAMES = ["a", "b"]
ACCOUNT = {"privacy/epsilon": 2.0, "privacy/delta": 1e-4, "privacy/seeded": 0.0, "privacy/steps": 4.0}
SILENT = [{"grad_norm": 1.0}]


def told(*rounds):
    spending = Spending(RECIPE)
    rows = [spending.columns(dict(enumerate(answers)), NAMES) for answers in rounds]
    return rows[-1], spending.summary()["privacy"]["guarantee"]


def test_clients_that_tell_their_accounts_are_protected():
    row, words = told([[ACCOUNT], [ACCOUNT | {"privacy/epsilon": 3.0}]])
    assert row["privacy/guarantee"] == "prompt-level" and row["privacy/epsilon"] == 3.0
    assert words.startswith(COVERED) and words.endswith("a (2, 1.0e-04), b (3, 1.0e-04).")


@pytest.mark.parametrize(
    "claim",
    [
        {},
        {"privacy/epsilon": 2.0},
        {"privacy/epsilon": -1.0, "privacy/delta": 1e-4},
        {"privacy/epsilon": 2.0, "privacy/delta": 0.0},
        {"privacy/epsilon": 2.0, "privacy/delta": 1.0},
        {"privacy/delta": 1e-4},
    ],
)
def test_a_client_that_tells_nothing_credible_leaves_the_run_without_guarantee(claim):
    row, words = told([[ACCOUNT], [SILENT[0] | claim]])
    assert row["privacy/guarantee"] == "none"
    assert words == UNBOUNDED


def test_what_a_client_told_before_stands_where_it_only_repeats_an_answer():
    row, words = told([[ACCOUNT], [ACCOUNT]], [[ACCOUNT], []])
    assert row["privacy/guarantee"] == "prompt-level" and words.startswith(COVERED)


def test_levels_of_private_problems_are_in_no_record():
    """Their counts are exact: each problem shows in them."""
    parts = [ClientData("a", tuple(Problem(f"p{i}", "q", "1", {"level": 1 + i % 2}) for i in range(5)))]
    pool = {"1": [], "2": []}
    open_, private = (
        Levels.of(lambda split: pool, parts, "level", private=hidden) for hidden in (False, True)
    )
    assert open_.partition_rows() == [{"1": 3, "2": 2, "client": "a", "problems": 5}]
    assert private.partition_rows() == [{"client": "a", "problems": 5}]
    assert private.training == {} and private.clients == {"a": {}}
    assert "| a | 5 |" in model_card(RECIPE, {}, private.partition_rows())
