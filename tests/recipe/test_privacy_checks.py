from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hanse.recipe.load import load_recipe
from hanse.recipe.privacy import PrivacySpec
from tests.recipe.refusal import assert_refused

ON = {"enabled": True, "epsilon": 8.0}
NOISED = ON | {"signals": "noised"}


def recipe(privacy=None, **more):
    return load_recipe({"privacy": ON if privacy is None else privacy, **more})


TWO = [{"name": "exact"}, {"name": "format"}]


@pytest.mark.parametrize(
    ("privacy", "more", "field", "problem", "remedy"),
    [
        ({"enabled": True}, {}, "privacy.epsilon", "neither a budget nor a noise", "privacy.epsilon = 8"),
        (ON | {"noise": 0.0}, {}, "privacy.noise", "the first step costs more", "Leave it out"),
        (
            {"enabled": True, "noise": 0.0, "signals": "noised"},
            {},
            "privacy.noise",
            "none for signals",
            "more than 0",
        ),
        (ON, {"mode": "swarm", "grpo": {"local_steps": 1}}, "privacy.enabled", "swarm", 'mode = "federated"'),
        (ON, {"grpo": {"objective": "dapo"}}, "grpo.objective", "whole batch", '"dr_grpo"'),
        (ON, {"grpo": {"objective": "bnpo"}}, "grpo.objective", "whole batch", '"grpo"'),
        (ON, {"grpo": {"objective": "cispo", "clip_high": 5}}, "grpo.objective", "whole batch", '"gspo"'),
        (ON, {"grpo": {"scale": "batch"}}, "grpo.scale", "all rewards", '"group"'),
        (ON, {"grpo": {"iterations": 2}}, "grpo.iterations", "several times", "grpo.iterations = 1"),
        (ON, {"grpo": {"mini_batches": 2}}, "grpo.mini_batches", "several times", "grpo.mini_batches = 1"),
        (ON, {"grpo": {"dynamic_sampling": True}}, "grpo.dynamic_sampling", "blind", "= false"),
        (ON, {"grpo": {"screening": "joined"}}, "grpo.screening", "blind", '= "none"'),
        (ON, {"grpo": {"allocation": "variance"}}, "grpo.allocation", "blind", '= "uniform"'),
        (ON, {"federation": {"rollouts": "informative"}}, "federation.rollouts", "blind", '= "equal"'),
        (
            ON,
            {"grpo": {"reward_weights": {"type": "hypergradient"}}, "rewards": TWO},
            "grpo.reward_weights.type",
            "all problems",
            'Use "sum".',  # "fixed" is refused as well
        ),
        (
            ON,
            {"grpo": {"reward_weights": {"type": "fixed"}}, "rewards": TWO},
            "grpo.reward_weights.type",
            "one by one",
            'type = "sum"',
        ),
        (ON, {"federation": {"weighting": "reward-std"}}, "federation.weighting", "reads rewards", "noised"),
        (ON, {"federation": {"weighting": "fairness"}}, "federation.weighting", "reads rewards", "uniform"),
        (
            NOISED,
            {"federation": {"weighting": "reward-std", "weights": {"std": "pooled"}}},
            "federation.weights.std",
            "over problems",
            '"within"',
        ),
        (
            NOISED,
            {"federation": {"calibration": {"strength": 1.0}}},
            "federation.calibration",
            '"informative"',
            'normalise = "none"',
        ),
        (
            NOISED,
            {"federation": {"calibration": {"strength": 1.0, "normalise": "none", "pivot": "local"}}},
            "federation.calibration",
            '"local"',
            'pivot = "constant"',
        ),
        (
            ON,
            {"federation": {"calibration": {"strength": 1.0, "normalise": "none"}}},
            "federation.calibration.pivot",
            "do not tell",
            '"constant"',
        ),
        (
            ON,
            {"federation": {"budget": {"fraction": 0.1}}},
            "federation.budget.share",
            "do not tell",
            '"uniform"',
        ),
    ],
)
def test_what_mixes_problems_or_tells_of_them_is_refused(privacy, more, field, problem, remedy):
    assert_refused({"privacy": privacy, **more}, field, problem, remedy)
    load_recipe(more)  # without privacy all of it is fine


@pytest.mark.parametrize(
    ("privacy", "more"),
    [
        (ON, {}),
        ({"enabled": True, "noise": 0.0}, {}),
        (ON, {"grpo": {"objective": "rloo", "baseline": "leave_one_out", "beta": 0.1}}),
        (ON, {"mode": "central", "federation": {"weighting": "reward-std", "rollouts": "informative"}}),
        (NOISED, {"federation": {"weighting": "reward-std", "budget": {"fraction": 0.1}}}),
        (NOISED, {"federation": {"calibration": {"strength": 1.0, "normalise": "none"}}}),
        (ON, {"federation": {"secure": {"enabled": True}, "weighting": "uniform"}}),
    ],
)
def test_what_stays_within_a_problem_is_allowed(privacy, more):
    assert recipe(privacy, **more).privacy.enabled


def test_without_privacy_nothing_of_it_is_checked():
    assert not load_recipe({"privacy": {"enabled": False}, "grpo": {"objective": "dapo"}}).privacy.enabled


def test_delta_is_less_than_one_over_the_number_of_problems():
    assert PrivacySpec().delta_of(1000) == pytest.approx(1000**-1.1)
    assert PrivacySpec(delta=1e-6).delta_of(1000) == 1e-6
    assert PrivacySpec().delta_of(1) == 0.1


def test_sensitivity_counts_signals_only_where_they_are_told():
    assert PrivacySpec(signal_scale=0.75).sensitivity == 1.0
    assert PrivacySpec(signal_scale=0.75, signals="noised").sensitivity == 1.25


def test_the_page_describes_every_option_and_its_recipe_loads():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "methods" / "privacy.md").read_text()
    assert [name for name in PrivacySpec.model_fields if f"`{name}`" not in page and name != "enabled"] == []
    (block,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert load_recipe(tomllib.loads(block)).privacy.epsilon == 8
    assert load_recipe(root / "recipes" / "private.toml").privacy.enabled
