"""`[federation]`: what is refused with a remedy, what is noted, and what neither is."""

from __future__ import annotations

from typing import Any

import pytest

from hanse.cli import estimate
from hanse.cli.sizes import Sizes
from hanse.errors import RecipeError
from hanse.recipe.advice import advice
from hanse.recipe.federation import FederationSpec
from hanse.recipe.load import load_recipe

REFUSED = [
    (
        {"weighting": "fixed"},
        "weights.fixed",
        "no weights for 5 clients",
        "fixed = [1.0, 1.0, 1.0, 1.0, 1.0]",
    ),
    ({"weighting": "fixed", "weights": {"fixed": [1.0] * 4}}, "weights.fixed", "4 weights for 5", "Give one"),
    (
        {"weighting": "fixed", "weights": {"fixed": [1.0, 1.0, -0.5, 1.0, 1.0]}},
        "weights.fixed",
        "negative",
        "Give one",
    ),
    (
        {"weighting": "fixed", "weights": {"fixed": [0.0] * 5}},
        "weights.fixed",
        "every weight is 0",
        "Give one",
    ),
    ({"weights": {"fixed": [1.0] * 5}}, "weights.fixed", 'it is "samples"', 'federation.weighting = "fixed"'),
    ({"calibration": {"low": 1.5}}, "calibration.low", "1.5 to 2 leave out 1", "low = 0.25"),
    ({"calibration": {"high": 0.5}}, "calibration.high", "0.25 to 0.5 leave out 1", "high = 2"),
    (
        {"codec": "dense", "budget": {"fraction": 0.05}},
        "codec",
        "whatever budget.fraction = 0.05 allows",
        '"auto", "small" or "fast"',
    ),
    (
        {"budget": {"fraction": 0.05, "decay": 0.9, "error_feedback": "off"}},
        "budget.decay",
        "keeps nothing",
        "Leave decay out",
    ),
    (
        {"screening": {"reward_range": (1.0, 1.0)}},
        "screening.reward_range",
        "[1, 1] is no range",
        "[0.0, 1.0]",
    ),
    (
        {"screening": {"reward_range": (1.0, 0.0)}},
        "screening.reward_range",
        "[1, 0] is no range",
        "[0.0, 1.0]",
    ),
    (
        {"local": "fednova", "aggregation": "norm-equalised"},
        "aggregation",
        "undoes what",
        'aggregation = "mean"',
    ),
    ({"server": {"betas": [0.9, 1.0]}}, "server.betas.1", "1 is outside", "[0.9, 0.99]"),
    ({"server": {"betas": [-0.5, 0.9]}}, "server.betas.0", "-0.5 is outside", "[0.9, 0.99]"),
    ({"weights": {"gamma": 11.0}}, "weights.gamma", "", ""),
    ({"participation": 0.0}, "participation", "", ""),
]


def recipe(federation: dict[str, Any], **fields: Any):
    return load_recipe({"grpo": {"lr": 1e-3}, "federation": federation} | fields)


@pytest.mark.parametrize(("federation", "field", "problem", "remedy"), REFUSED, ids=lambda x: str(x)[:40])
def test_refused(federation: dict[str, Any], field: str, problem: str, remedy: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipe(federation)
    assert caught.value.field == f"federation.{field}"
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy
    assert caught.value.remedy


QUIET: list[dict[str, Any]] = [
    {"weighting": "fixed", "weights": {"fixed": [0.0, 0.0, 0.0, 0.0, 1.0]}},
    {"calibration": {"strength": 1.0, "low": 1.0, "high": 1.0}},
    {"codec": "small", "budget": {"fraction": 0.05, "select": "chunk", "bits": 2, "decay": 0.9}},
    {"budget": {"bits": 4}},
    {"codec": "fast", "exchange_dtype": "bfloat16"},
    {"local": "fednova", "aggregation": "sign-consensus"},
    {"local": "scaffold", "weighting": "reward-std", "weights": {"gamma": 0.5, "cap": None}},
    {"server_optimizer": "adam", "server": {"lr": 1e-3, "tau": 1e-3}},
    {"screening": {"reward_range": (-1.0, 1.0), "max_samples": 10}},
    {"participation": 0.01},
]


@pytest.mark.parametrize("federation", QUIET, ids=str)
def test_neither_refused_nor_noted(federation: dict[str, Any]) -> None:
    assert advice(recipe(federation)) == []


@pytest.mark.parametrize(
    ("federation", "note"),
    [
        ({"weights": {"gamma": 2.0}}, 'federation.weights.gamma has no effect with weighting = "samples".'),
        (
            {"weighting": "task-accuracy", "weights": {"ema": 0.5}},
            'federation.weights.ema has no effect with weighting = "task-accuracy".',
        ),
        (
            {"server": {"momentum": 0.5}},
            'federation.server.momentum has no effect with server_optimizer = "plain".',
        ),
        (
            {"server_optimizer": "momentum", "server": {"tau": 1.0}},
            'federation.server.tau has no effect with server_optimizer = "momentum".',
        ),
        ({"local_options": {"mu": 1.0}}, 'federation.local_options.mu has no effect with local = "plain".'),
        (
            {"budget": {"share": "own", "grant": "lagged"}},
            "federation.budget.share, grant: no effect without budget.fraction.",
        ),
        ({"calibration": {"pivot": "local"}}, "federation.calibration has no effect with strength = 0."),
        ({"aggregation": "masked"}, 'federation.aggregation = "masked" hardly differs from "mean"'),
        ({"budget": {"fraction": 1.0}}, "federation.budget.fraction = 1 sends every change"),
        (
            {"local": "scaffold", "server_optimizer": "momentum"},
            'federation.local = "scaffold" corrects towards the plain mean step',
        ),
        ({"local": "fedadamw", "moments": "reset"}, 'federation.moments = "reset" with local = "fedadamw"'),
        (
            {"local": "shared-moment", "moments": "reset"},
            'federation.moments = "reset" with local = "shared-moment"',
        ),
        ({"server_optimizer": "adam"}, "federation.server.lr = 1 with Adam moves every weight"),
    ],
)
def test_noted(federation: dict[str, Any], note: str) -> None:
    notes = advice(recipe(federation))
    assert any(text.startswith(note) for text in notes), notes


@pytest.mark.parametrize("mode", ["central", "local"])
def test_modes_without_an_exchange_are_told_what_has_no_effect(mode: str) -> None:
    federation = {"weighting": "reward-std", "budget": {"fraction": 0.1}, "moments": "reset"}
    (note,) = advice(recipe(federation, mode=mode))
    assert note.startswith(f'federation.weighting, budget: no effect with mode = "{mode}"')
    assert advice(recipe({"moments": "reset"}, mode=mode)) == []
    assert recipe({"weights": {"fixed": [1.0]}}, mode=mode).federation.weights.fixed == [1.0]


KNOWN = Sizes(total=1000, trainable=1000, vocabulary=100, cache_width=8)


def traffic(federation: dict[str, Any], **fields: Any) -> dict[str, tuple[int, str]]:
    lines = estimate.traffic(recipe(federation, rounds=10, **fields), KNOWN)
    return {line.what.split(",")[0]: (line.size, line.how) for line in lines}


def test_traffic_of_part_of_the_clients() -> None:
    lines = traffic({"participation": 0.5})
    assert lines["up"] == (2 * 4000, "2 of 5 clients × 1,000 × 4 B")
    assert lines["both"] == (10 * 4 * 4000, "2 × 10 rounds")


def test_traffic_of_sparse_uploads_is_a_bound_that_says_so() -> None:
    lines = traffic({"budget": {"fraction": 0.05}, "exchange_dtype": "bfloat16"})
    assert lines["up"] == (5 * 2000, "5 clients × 1,000 × 2 B; at most: only what changed is sent, 5 % of it")
    assert lines["down"][1].endswith("at most: patches hold what changed")
    assert "in 4 bits" in traffic({"budget": {"bits": 4}})["up"][1]
    assert "at most" not in traffic({"codec": "dense", "exchange_dtype": "bfloat16"})["up"][1]


def test_traffic_of_local_methods() -> None:
    lines = traffic({"local": "scaffold"})
    assert lines["up"] == lines["down"] == (5 * 8000, "5 clients × 1,000 × (4 B + 4 B for scaffold)")
    lines = traffic({"local": "shared-moment"})
    assert lines["up"] == lines["down"] == (5 * 8000, "5 clients × 1,000 × (4 B + 4 B for shared-moment)")
    lines = traffic({"local": "fedadamw"})
    assert (lines["up"][0], lines["down"][0]) == (5 * 4000, 5 * 8000)
    assert lines["both"] == (10 * 5 * 12000, "10 rounds")


@pytest.mark.parametrize(
    ("federation", "client", "server"),
    [
        ({}, 8, 4),
        ({"exchange_dtype": "bfloat16"}, 8 + 4 + 2, 4 + 2),
        ({"exchange_dtype": "bfloat16", "codec": "dense", "residual": "discard"}, 8, 4),
        ({"budget": {"fraction": 0.1}}, 8 + 4 + 4, 4 + 4),
        ({"budget": {"bits": 4, "error_feedback": "start"}}, 8 + 4, 4),
        ({"local": "scaffold", "server_optimizer": "coherent"}, 8 + 4, 4 + 8 + 4),
        ({"local": "fedadamw", "server_optimizer": "momentum"}, 8, 4 + 4 + 4),
    ],
)
def test_disk_of_what_is_kept(federation: dict[str, Any], client: int, server: int) -> None:
    first = estimate.disk(recipe(federation), KNOWN)[0]
    assert first.size == 5 * 1000 * client + 1000 * server
    (kept,) = (line for line in estimate.memory(recipe(federation), KNOWN) if line.what.startswith("server"))
    assert kept.size == 1000 * server


@pytest.mark.parametrize(
    ("spec", "optimizer"),
    [
        ({}, "plain"),
        ({"weighting": "uniform"}, "plain"),
        ({"weighting": "reward-std"}, "coherent"),
        ({"weighting": "reward-std", "server_optimizer": "plain"}, "plain"),
        ({"weighting": "reward-std", "aggregation": "flora"}, "plain"),
        ({"weighting": "reward-std", "local": "scaffold"}, "plain"),
    ],
)
def test_the_server_optimiser_in_force(spec: dict[str, str], optimizer: str) -> None:
    assert FederationSpec.model_validate(spec).optimizer == optimizer
