"""G1: nothing is learnt for hours because every completion is cut off, and nobody says so."""

import pytest

from hanse.recipe.model import GrpoSpec
from hanse.runs.health import DegenerateError, Health

CUT = {"frac_reward_zero_std": 1.0, "completions/clipped_ratio": 1.0, "reward": 0.0}
FINE = {"frac_reward_zero_std": 0.2, "completions/clipped_ratio": 0.0, "reward": 0.4}


def observe(rows, **spec):
    health = Health(GrpoSpec(degenerate_patience=3, **spec))
    return [message for row in rows for message in health.observe("ward-3", row)]


def test_the_warning_names_client_and_knob_once():
    messages = observe([CUT] * 7)
    assert len(messages) == 1
    assert "ward-3" in messages[0]
    assert "grpo.max_new_tokens" in messages[0]


def test_a_good_step_starts_the_count_again():
    assert observe([CUT, CUT, FINE, CUT, CUT]) == []


def test_too_hard_and_too_easy_are_told_apart():
    hard = observe([CUT | {"completions/clipped_ratio": 0.0}] * 3)
    easy = observe([CUT | {"completions/clipped_ratio": 0.0, "reward": 1.0}] * 3)
    assert "too hard" in hard[0]
    assert "grpo.group_size" in hard[0]
    assert "too easy" in easy[0]


def test_truncation_alone_is_told_too():
    (message,) = observe([FINE | {"completions/clipped_ratio": 0.97}] * 3)
    assert "97%" in message
    assert "grpo.max_new_tokens" in message


def test_the_run_ends_where_asked():
    with pytest.raises(DegenerateError, match=r"grpo\.max_new_tokens"):
        observe([CUT] * 3, on_degenerate="fail")


def test_the_count_survives_a_checkpoint():
    health = Health(GrpoSpec(degenerate_patience=3))
    for _ in range(2):
        health.observe("a", CUT)
    restored = Health.from_state(GrpoSpec(degenerate_patience=3), health.to_state())
    assert len(restored.observe("a", CUT)) == 1


def test_messages_of_reward_functions_are_told_once_and_bounded():
    health = Health(GrpoSpec())
    (first,) = health.count_errors("a", {"f: exception: ValueError: x": 3})
    assert first == "client a: a reward function failed on 3 completions: f: exception: ValueError: x"
    assert health.count_errors("b", {"f: exception: ValueError: x": 1}) == []
    more = [m for i in range(50) for m in health.count_errors("a", {f"f: exception: {i}": 1})]
    assert len(more) == 20 and more[-1].endswith(": other messages")
    restored = Health.from_state(GrpoSpec(), health.to_state())
    assert restored.count_errors("a", {"f: exception: 7": 1, "new": 1}) == []
    assert restored.errors["f: exception: ValueError: x"] == 4
    assert sum(restored.errors.values()) == 56
