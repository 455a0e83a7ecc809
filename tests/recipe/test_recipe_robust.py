"""`[federation.robust]`: promises that the clients of a round cannot give are refused with a remedy."""

from __future__ import annotations

import pytest

from hanse.recipe.advice import advice
from hanse.recipe.load import load_recipe
from hanse.recipe.robust import RobustSpec
from tests.recipe.refusal import assert_refused

LORA = {"train": "lora"}


def recipe(clients: int = 15, federation=None, policy=None, **robust):
    document = {
        "partition": {"clients": clients, "by": "iid"},
        "federation": {"robust": {"byzantine": 3, **robust}, **(federation or {})},
    }
    return document | ({"policy": policy} if policy else {})


@pytest.mark.parametrize(
    ("rule", "mixing", "liars", "fewest"),
    [
        ("none", "none", 3, 1),
        ("krum", "none", 3, 9),
        ("multi-krum", "none", 0, 3),
        ("bulyan", "none", 1, 7),
        ("median", "none", 2, 5),
        ("trimmed-mean", "none", 1, 3),
        ("geometric-median", "nearest", 2, 5),
        ("centred-clipping", "none", 1, 3),
        ("norm-clipping", "none", 1, 3),
        ("fltrust", "none", 4, 1),
        ("fltrust", "nearest", 4, 9),
        ("dnc", "none", 2, 5),
        ("krum", "bucketing", 1, 9),
        ("median", "bucketing", 2, 9),
    ],
)
def test_how_many_clients_a_promise_takes(rule, mixing, liars, fewest):
    spec = RobustSpec(rule=rule, mixing=mixing)
    assert spec.fewest(liars) == fewest
    assert spec.voters(fewest) >= spec.fewest_voters(liars) > spec.voters(fewest - 1) or mixing == "nearest"


def test_dnc_that_removes_more_needs_more():
    assert RobustSpec(rule="dnc", removed=1.5).fewest(2) == 6


@pytest.mark.parametrize(("clients", "most"), [(2, None), (3, 0), (4, 0), (5, 1), (15, 6)])
def test_the_most_liars_that_krum_withstands(clients, most):
    assert RobustSpec(rule="krum").most_liars(clients) == most


def test_the_fewest_clients_are_enough():
    for rule in ("krum", "bulyan", "median", "dnc"):
        load_recipe(recipe(RobustSpec(rule=rule).fewest(3), rule=rule))


@pytest.mark.parametrize(
    ("document", "field", "problem", "remedy"),
    [
        (
            recipe(8, rule="krum"),
            "federation.robust.byzantine",
            "3 liars among 9 clients or more, and a round has 8",
            "Use byzantine = 2",
        ),
        (
            recipe(14, rule="bulyan"),
            "federation.robust.byzantine",
            "among 15 clients or more",
            "Use byzantine = 2",
        ),
        (
            recipe(15, rule="median", federation={"participation": 0.4}),
            "federation.robust.byzantine",
            "among 7 clients or more, and a round has 6",
            "partition.clients = 7",
        ),
        (
            recipe(15, rule="krum", mixing="bucketing"),
            "federation.robust.byzantine",
            'after mixing = "bucketing" withstands 3 liars among 17',
            "Use byzantine = 2",
        ),
        (
            recipe(2, rule="krum", byzantine=0),
            "federation.robust.byzantine",
            "among 3 clients or more, and a round has 2",
            "Use partition.clients = 3",
        ),
        (
            recipe(15, rule="multi-krum", keep=11),
            "federation.robust.keep",
            "at most n - f - 2 = 10",
            "Use keep = 10",
        ),
        (
            recipe(rule="krum", federation={"aggregation": "masked"}),
            "federation.aggregation",
            '"masked" is a rule of its own',
            'aggregation = "mean"',
        ),
        (
            recipe(rule="krum", policy=LORA, federation={"aggregation": "fedsa"}),
            "federation.aggregation",
            '"fedsa" never sees one of the factors',
            'aggregation = "mean"',
        ),
        (
            recipe(rule="median", policy=LORA),
            "federation.robust.rule",
            "single entries of LoRA factors",
            '"ffa"',
        ),
        (
            recipe(rule="centred-clipping", policy=LORA, federation={"aggregation": "flora"}),
            "federation.aggregation",
            "begins with the last round's update",
            '"geometric-median"',
        ),
        (
            recipe(rule="krum", federation={"local": "scaffold"}),
            "federation.local",
            '"scaffold" sends or reports something',
            '"fedprox"',
        ),
        (
            recipe(rule="krum", federation={"secure": {"enabled": True}}),
            "federation.robust.rule",
            "the server sees their sum only",
            'rule = "none"',
        ),
    ],
)
def test_refused(document, field, problem, remedy):
    assert_refused(document, field, problem, remedy)


@pytest.mark.parametrize(
    ("rule", "aggregation"),
    [
        ("median", "ffa"),
        ("bulyan", "rolora"),
        ("krum", "flora"),
        ("multi-krum", "flexlora"),
        ("geometric-median", "fedex"),
        ("centred-clipping", "ffa"),
        ("norm-clipping", "mean"),
    ],
)
def test_rules_that_go_with_lora(rule, aggregation):
    load_recipe(recipe(rule=rule, policy=LORA, federation={"aggregation": aggregation}))


def test_clients_that_stay_away_are_not_counted():
    absent = recipe(9, rule="krum") | {"adversary": {"clients": [0], "attack": "absent"}}
    assert_refused(absent, "federation.robust.byzantine", "a round has 8", "Use byzantine = 2")


def test_other_modes_read_none_of_it():
    load_recipe(recipe(2, rule="krum") | {"mode": "local"})


@pytest.mark.parametrize(
    ("document", "note"),
    [
        (recipe(), 'federation.robust.byzantine: no effect with rule = "none".'),
        (recipe(rule="krum", radius=2.0), 'federation.robust.radius has no effect with rule = "krum".'),
        (recipe(rule="krum", bucket=3), 'federation.robust.bucket has no effect with mixing = "none".'),
        (
            recipe(rule="krum", federation={"weighting": "reward-std"}),
            'federation.weighting = "reward-std" has no effect with robust.rule = "krum", which counts every '
            "client once.",
        ),
        (
            recipe(rule="krum", federation={"screening": {"max_norm": 3.0}}),
            "federation.screening.max_norm has no effect beside federation.robust, which sees long updates.",
        ),
    ],
)
def test_what_has_no_effect_is_said(document, note):
    assert note in advice(load_recipe(document))


def test_weights_that_are_read_are_not_remarked_on():
    loaded = load_recipe(recipe(rule="norm-clipping", federation={"weighting": "reward-std"}))
    assert [note for note in advice(loaded) if "robust" in note] == []
    assert loaded.federation.screening_in_force.max_norm is None
