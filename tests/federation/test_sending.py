"""Sending: nothing of a target is lost or doubled, and the receiver sees what the sender believes."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.payload import unpack
from hanse.federation.selection import SELECTIONS
from hanse.federation.sending import Outbox, Sent, codec_in_force, count_changed
from hanse.federation.wire.dense import DTYPES
from hanse.federation.wire.layout import Layout
from hanse.federation.wire.patch import digest_of_values
from hanse.recipe.federation import FederationSpec

SHAPES = ((30, 10), (0,), (7,), (93,))
NUMEL = 400
SWITCHES = list(
    itertools.product(
        ["float32", "bfloat16"],
        ["keep", "discard"],
        ["upload", "start", "off"],
        [None, 2, 8],
        [None, 0, 50, 10**6],
    )
)


def layout_of(dtype: str) -> Layout:
    return Layout(("a", "b", "c", "d"), SHAPES, dtype)


def outbox_of(dtype: str, **spec) -> Outbox:
    federation = FederationSpec(**spec)
    return Outbox(federation, layout_of(dtype), codec_in_force(federation, dtype))


def pair(dtype: str, seed: int = 0, scale: float = 3e-3) -> tuple[torch.Tensor, torch.Tensor]:
    """A target and its base; a fifth of the entries do not move."""
    random = torch.Generator().manual_seed(seed)
    base = torch.randn(NUMEL, generator=random).to(DTYPES[dtype])
    moves = torch.randn(NUMEL, generator=random) * scale
    moves[torch.rand(NUMEL, generator=random) < 0.2] = 0
    return base.float() + moves, base


def received(sent: Sent, base: torch.Tensor, dtype: str) -> torch.Tensor:
    layout = layout_of(dtype)
    return unpack(sent.payload, base, layout, digest_of_values(base, layout))


def send(outbox: Outbox, target: torch.Tensor, base: torch.Tensor, count: int | None) -> Sent:
    return outbox.send(target, base, digest_of_values(base, outbox.layout), count)


def zeros_for(none: torch.Tensor | None) -> torch.Tensor:
    return torch.zeros(NUMEL) if none is None else none


@pytest.mark.parametrize(("dtype", "residual", "feedback", "bits", "count"), SWITCHES)
def test_what_is_sent_and_what_is_left_over_add_up(dtype, residual, feedback, bits, count):
    outbox = outbox_of(
        dtype,
        residual=residual,
        budget={"fraction": 0.5, "bits": bits, "error_feedback": feedback},
    )
    target, base = pair(dtype)
    sent = send(outbox, target, base, count)
    values = received(sent, base, dtype).float()
    cast = target.to(DTYPES[dtype]).float()
    off_grid, unsent = target - cast, cast - values
    partial = bits is not None or count is not None
    assert (sent.unsent is not None) == (partial and feedback == "upload")
    expected = torch.zeros(NUMEL)
    if residual == "keep":
        expected = expected + off_grid
    if partial and feedback != "off":
        expected = expected + unsent
    left = zeros_for(sent.residual) + zeros_for(sent.unsent)
    torch.testing.assert_close(left, expected, rtol=0, atol=1e-7)
    if residual == "keep" and (feedback != "off" or not partial):
        torch.testing.assert_close(values + left, target, rtol=0, atol=3e-7)


@pytest.mark.parametrize("feedback", ["upload", "start"])
def test_decay_keeps_a_part_of_what_was_not_sent(feedback):
    target, base = pair("bfloat16")
    whole, half = (
        send(
            outbox_of("bfloat16", budget={"fraction": 0.5, "error_feedback": feedback, "decay": d}),
            target,
            base,
            20,
        )
        for d in (1.0, 0.5)
    )
    assert whole.payload == half.payload
    if feedback == "upload":
        assert torch.equal(half.unsent, whole.unsent * 0.5)
        assert torch.equal(half.residual, whole.residual)
    else:
        off_grid = target - target.bfloat16().float()
        torch.testing.assert_close(half.residual - off_grid, (whole.residual - off_grid) * 0.5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("select", SELECTIONS)
@pytest.mark.parametrize("codec", ["small", "fast"])
def test_a_whole_budget_is_lossless(dtype, select, codec):
    outbox = outbox_of(dtype, codec=codec, budget={"fraction": 1.0, "select": select})
    target, base = pair(dtype)
    sent = send(outbox, target, base, count_changed(target, base))
    assert torch.equal(received(sent, base, dtype), target.to(DTYPES[dtype]))
    assert sent.unsent is not None
    assert sent.unsent.abs().max() == 0
    at_once = send(outbox_of(dtype, codec=codec), target, base, None)
    assert at_once.payload == sent.payload


@given(st.integers(0, 1000), st.integers(0, NUMEL), st.sampled_from(sorted(SELECTIONS)))
def test_a_receiver_never_sees_more_changes_than_were_allowed(seed, count, select):
    outbox = outbox_of("bfloat16", budget={"fraction": 0.5, "select": select})
    target, base = pair("bfloat16", seed)
    values = received(send(outbox, target, base, count), base, "bfloat16")
    differing = values != base
    assert int(differing.sum()) == min(count, count_changed(target, base))
    assert torch.equal(values[differing], target.bfloat16()[differing])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_both_ends_agree_on_a_quantised_update(dtype, bits):
    """The sender's bookkeeping is about the very values that the receiver gets."""
    outbox = outbox_of(dtype, residual="discard", budget={"fraction": 0.3, "bits": bits})
    target, base = pair(dtype)
    sent = send(outbox, target, base, 100)
    values = received(sent, base, dtype)
    assert sent.payload.form == "quantised"
    assert int((values != base).sum()) <= 100
    assert torch.equal(target.to(DTYPES[dtype]).float() - values.float(), sent.unsent)


def test_error_feedback_sends_everything_in_the_end():
    """A constant target, nothing learnt in between: what is left over is sent round by round."""
    outbox = outbox_of("bfloat16", budget={"fraction": 0.2})
    target, base = pair("bfloat16")
    goal = target.bfloat16()
    residual, unsent, own = torch.zeros(NUMEL), torch.zeros(NUMEL), target
    for _ in range(8):
        sent = send(outbox, own + unsent, base, 60)
        base = received(sent, base, "bfloat16")
        residual, unsent = zeros_for(sent.residual), zeros_for(sent.unsent)
        own = base.float() + residual
    assert torch.equal(base, goal)
    torch.testing.assert_close(own, target, rtol=0, atol=1e-6)


def test_codecs_in_force():
    assert codec_in_force(FederationSpec(), "float32") == "dense"
    assert codec_in_force(FederationSpec(), "bfloat16") == "small"
    assert codec_in_force(FederationSpec(budget={"fraction": 0.5}), "float32") == "small"
    assert codec_in_force(FederationSpec(codec="fast"), "float32") == "fast"
    assert codec_in_force(FederationSpec(codec="dense"), "bfloat16") == "dense"
