import math

import pytest

from hanse.cli.estimate import traffic
from hanse.cli.sizes import Sizes
from hanse.errors import RecipeError
from hanse.privacy.secure.fixed_point import modulus_for
from hanse.privacy.secure.graph import shares_needed
from hanse.recipe.advice import advice
from hanse.recipe.load import load_recipe
from hanse.recipe.model import GrpoSpec
from hanse.recipe.secure import Reach, SecureSpec, adam_bound, word_bytes
from hanse.recipe.secure_checks import DIVIDED

ON = {"federation": {"secure": {"enabled": True}}}


def recipe(federation=None, **more):
    return load_recipe({"federation": {"secure": {"enabled": True}, **(federation or {})}, **more})


@pytest.mark.parametrize(
    ("field", "federation", "more"),
    [
        ("federation.budget", {"budget": {"fraction": 0.1}}, {}),
        ("federation.budget", {"budget": {"bits": 8}}, {}),
        ("federation.codec", {"codec": "small"}, {}),
        ("federation.aggregation", {"aggregation": "masked"}, {}),
        ("federation.aggregation", {"aggregation": "sign-consensus"}, {}),
        ("federation.aggregation", {"aggregation": "norm-equalised"}, {}),
        ("federation.aggregation", {"aggregation": "flora"}, {"policy": {"type": "tiny", "train": "lora"}}),
        ("federation.weighting", {"weighting": "coherence"}, {}),
        ("federation.local", {"local": "scaffold"}, {}),
        ("federation.local", {"local": "fednova"}, {}),
        ("federation.screening.max_norm", {"screening": {"max_norm": 3.0}}, {}),
        ("federation.robust.rule", {"robust": {"rule": "median"}}, {}),
        ("partition.clients", {}, {"partition": {"clients": 2}}),
        ("federation.participation", {"participation": 0.4}, {}),
        ("federation.secure.range", {}, {"grpo": {"betas": [0.9, 0.8]}}),
        (
            "federation.secure.bits",
            {"secure": {"enabled": True, "bits": 48}},
            {"partition": {"clients": 100_000}},
        ),
        (
            "federation.weights.fixed",
            {"weighting": "fixed", "weights": {"fixed": [1, 1, 0, 0, 0]}},
            {"partition": {"clients": 5}},
        ),
        ("adversary.clients", {}, {"adversary": {"clients": [0]}}),
    ],
)
def test_what_needs_single_updates_is_refused_with_a_remedy(field, federation, more):
    with pytest.raises(RecipeError) as caught:
        recipe(federation, **more)
    assert caught.value.field == field
    assert caught.value.remedy
    without = {**federation, "secure": {"enabled": False}}
    if field not in ("federation.secure.range", "federation.secure.bits"):
        load_recipe({"federation": without, **more})


@pytest.mark.parametrize(
    "federation",
    [{"weighting": "reward-std"}, {"local": "fedprox"}, {"server_optimizer": "adam"}, {"codec": "dense"}],
)
def test_what_goes_with_sums_is_allowed(federation):
    recipe(federation)


@pytest.mark.parametrize("aggregation", ["ffa", "rolora"])
def test_means_of_one_factor_are_sums(aggregation):
    recipe({"aggregation": aggregation}, policy={"type": "tiny", "train": "lora"})


@pytest.mark.parametrize("secure", [{"neighbours": 5}, {"neighbours": 2}, {"threshold": 0.5}, {"range": 0.0}])
def test_numbers_out_of_range(secure):
    with pytest.raises(RecipeError):
        recipe({"secure": {"enabled": True, **secure}})


def test_other_modes_have_nobody_to_hide_from():
    load_recipe({"mode": "central", **ON, "partition": {"clients": 2}})


def test_the_bound_on_adam_by_hand():
    assert adam_bound((0.0, 0.0)) == 1
    assert adam_bound((0.0, 0.99)) == pytest.approx(10)
    assert adam_bound((0.9, 0.99)) == pytest.approx(1 / math.sqrt(1 - 0.81 / 0.99))
    assert adam_bound((0.9, 0.81)) == math.inf


@pytest.mark.parametrize("betas", [(0.9, 0.99), (0.5, 0.9), (0.0, 0.99), (0.9, 0.999)])
def test_no_gradients_move_adam_beyond_the_bound_and_the_worst_come_near(betas):
    first, second = betas
    ratio, worst = first / second, 0.0
    for steps in (1, 3, 10, 400):
        m = v = 0.0
        for t in range(1, steps + 1):
            g = ratio ** (steps - t) if ratio > 0 else float(t == steps)
            m, v = first * m + (1 - first) * g, second * v + (1 - second) * g * g
            if v > 0:
                step = m / (1 - first**t) / math.sqrt(v / (1 - second**t))
                worst = max(worst, step)
    assert worst <= adam_bound(betas) * (1 + 1e-9)
    assert worst > 0.4 * adam_bound(betas)


def test_the_range_of_a_round_by_hand():
    grpo = GrpoSpec(lr=1e-3, local_steps=2, iterations=3, betas=(0.0, 0.0), weight_decay=0.1)
    reach = Reach.of(SecureSpec(), grpo)
    assert reach.movement == pytest.approx(6e-3)
    assert reach.over(2.0) == pytest.approx(6e-3 + 6 * (1e-4 + 2**-23) * 2.006)
    assert Reach.of(SecureSpec(range=0.5), grpo).over(2.0) == 0.5


def test_absurd_rates_leave_a_range_that_can_be_computed_with():
    for lr in (1e-300, 3e38):
        assert 1e-12 <= Reach.of(SecureSpec(), GrpoSpec(lr=lr)).over(1.0) <= 1e6


def test_the_estimate_of_a_words_size_is_that_of_the_sum():
    for bits in (8, 24, 25, 31, 40):
        for clients in (3, 63, 64, 127, 128, 255, 256):
            assert word_bytes(bits, clients) * 8 == modulus_for(bits, clients)


def test_the_check_says_what_masked_uploads_come_to():
    masked, plain = (
        traffic(recipe({"secure": {"enabled": on}, "exchange_dtype": "bfloat16"}), Sizes(1000, 1000, 10, 10))
        for on in (True, False)
    )
    assert (masked[0].size, plain[0].size) == (5 * 1000 * 4, 5 * 1000 * 2)


@pytest.mark.parametrize(("threshold", "told"), [(0.6, True), (0.65, False), (2 / 3, False)])
def test_a_threshold_at_which_a_server_may_divide_clients_is_told(threshold, told):
    notes = advice(recipe({"secure": {"enabled": True, "threshold": threshold}}))
    assert any("different stories" in note for note in notes) is told


@pytest.mark.parametrize("clients", range(4, 200))
def test_from_which_threshold_on_stories_do_not_help(clients):
    needed = shares_needed(DIVIDED, clients)
    assert needed * (needed - 1) > (clients - 1) * (clients - needed)


def test_notes_on_patience_and_on_what_masks_cost():
    told = advice(recipe({"exchange_dtype": "bfloat16"}))
    assert sum("one client can spoil a sum" in note for note in told) == 1
    assert sum("masked updates are noise" in note for note in told) == 1
    quiet = advice(recipe(runtime={"patience": 3}))
    assert not [note for note in quiet if "federation.secure" in note]
