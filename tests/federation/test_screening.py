"""What a server refuses, and that honest clients pass."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hanse.federation.conduct import Conduct
from hanse.federation.messages import Payload, Report, Upload
from hanse.federation.payload import pack, pack_quantised, pack_vector
from hanse.federation.screening import Screen, Screened, gate_norms
from hanse.federation.signal import Signal, measure
from hanse.federation.wire.dense import encode_dense
from hanse.federation.wire.frame import WireError
from hanse.federation.wire.layout import Layout
from hanse.federation.wire.patch import digest_of_values
from hanse.federation.wire.quantised import quantise
from hanse.recipe.federation import ScreeningSpec
from tests.federation.test_calibration import groups_of

LAYOUT = Layout(("w",), ((4,),), "float32")
BASE = torch.zeros(4)
DIGEST = digest_of_values(BASE, LAYOUT)


def screen(group_size: int = 8, extras=None, **options) -> Screen:
    updates, still = options.pop("most_updates", None), options.pop("still", False)
    return Screen(
        ScreeningSpec(**options),
        LAYOUT,
        3,
        DIGEST,
        BASE,
        extras or {},
        group_size,
        True,
        most_updates=updates,
        still=still,
    )


def signal(mean: float = 0.5, std: float = 0.25, **fields) -> Signal:
    return Signal(
        **{"reward_mean": mean, "reward_std": std, "groups": 4, "informative": 3, "samples": 10} | fields
    )


def report(said: Signal, **fields) -> bytes:
    return Report(
        **{"round": 3, "client": 0, "base": DIGEST, "signal": said, "changed": 2} | fields
    ).to_bytes()


def upload(values: list[float] | Payload = (1.0, 0.0, 0.0, 0.0), **fields) -> bytes:
    payload = values
    if not isinstance(values, Payload):
        payload = pack(torch.tensor(values), BASE, LAYOUT, "small", DIGEST)
    document = {"round": 3, "client": 0, "base": DIGEST, "dtype": "float32", "signal": signal(), "changed": 1}
    return Upload(**document | {"payload": payload} | fields).to_bytes()


def reason(data: bytes, allowed: int | None = None, reported: Signal | None = None, **options) -> str:
    return screen(**options).upload(data, 0, allowed, reported).reason or ""


def test_a_good_upload_passes_with_its_norm_and_entries():
    passed = screen().upload(upload([3.0, 0.0, -4.0, 0.0]), 0, 2, signal())
    assert (passed.reason, passed.norm, passed.entries) == (None, 5.0, 2)
    assert passed.values.tolist() == [3.0, 0.0, -4.0, 0.0]


BAD_EXTRAS = {"a": torch.tensor([1.0, float("nan")])}


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (upload([1.0, 1.0, 1.0, 0.0]), {"allowed": 2}, "changes 3 entries; granted were 2"),
        (upload(), {"allowed": 0}, "changes 1 entries; granted were 0"),
        (upload(signal=signal(0.4)), {"reported": signal()}, "another signal than its report"),
        (upload(changed=5), {}, "more changed entries than there are parameters"),
        (upload(signal=signal(updates=11)), {"most_updates": 10}, "reports 11 updates; a round has 10"),
        (upload(signal=signal(samples=10)), {"max_samples": 9}, "reports 10 problems; the most are 9"),
        (upload(signal=signal(informative=0)), {"still": True}, "changes 1 entries, though no group"),
        (upload(extras={"a": b"1234"}), {}, "other vectors"),
        (upload(), {"extras": {"a": 1}}, "other vectors"),
        (upload(extras={"b": b"1234"}), {"extras": {"a": 1}}, "other vectors"),
        (upload(extras={"a": b"1234"}), {"extras": {"a": 2}}, "4 bytes of values"),
        (upload(extras={"a": pack_vector(BAD_EXTRAS["a"])}), {"extras": {"a": 2}}, "non-finite"),
        (upload(round=2), {}, "is for round 2"),
        (upload(base="0"), {}, "another base"),
        (upload(client=1), {}, "another client"),
        (upload(pack(torch.ones(4), BASE, LAYOUT, "small", "0" * 64)), {}, "another base"),
        (upload(Payload("quantised", b"\x04" * 40)), {}, "add up"),
        (upload(Payload("patch", b"HNSE" * 40)), {}, "message"),
    ],
)
def test_refused_in_words(data, options, words):
    assert words in reason(data, **options)


def test_a_quantised_update_that_overflows_is_refused():
    wide = Layout(("w",), ((4,),), "bfloat16")
    base = torch.full((4,), 3e38).bfloat16()
    digest = digest_of_values(base, wide)
    judge = Screen(ScreeningSpec(), wide, 3, digest, base, {}, 8)
    update = quantise(torch.full((1,), 3e38), torch.tensor([0]), 8)
    data = upload(pack_quantised(update), base=digest, dtype="bfloat16")
    assert "non-finite" in (judge.upload(data, 0, None, None).reason or "")


IMPOSSIBLE = [
    (signal(0.5, 0.51), 8),
    (signal(0.1, 0.31), 8),
    (signal(0.0625, 0.2), 8),
    (signal(1.0, 0.01), 8),
    (signal(0.5, 0.49), 3),
    (signal(0.5, 0.2, reward_std_pooled=0.51), 8),
    (signal(0.0, 0.0, reward_std_pooled=0.01), 8),
]


@pytest.mark.parametrize(("said", "size"), IMPOSSIBLE)
def test_impossible_deviations_are_refused(said, size):
    judge = screen(size, reward_range=(0.0, 1.0))
    with pytest.raises(WireError, match="excludes"):
        judge.report(report(said), 0)
    assert "excludes" in (judge.upload(upload(signal=said), 0, None, None).reason or "")
    screen(size).report(report(said), 0)


@pytest.mark.parametrize(("std", "groups", "passes"), [(0.25, 2, True), (0.2501, 2, False), (0.01, 0, False)])
def test_a_deviation_needs_groups_that_have_one(std, groups, passes):
    """Of four groups two have differing rewards, each a deviation of at most 0.5: 0.25 in the mean."""
    said = reason(upload(signal=signal(std=std, informative=groups)), reward_range=(0.0, 1.0))
    assert ("so few groups" in said) != passes


def test_nothing_changed_where_nothing_was_informative_passes():
    assert reason(upload([0.0] * 4, signal=signal(informative=0)), still=True) == ""
    assert reason(upload(signal=signal(informative=0)), still=False) == ""
    assert reason(upload(signal=signal(informative=1)), still=True) == ""


@pytest.mark.parametrize("mean", [-0.01, 1.01])
def test_impossible_means_are_refused(mean):
    with pytest.raises(WireError, match=r"mean reward outside \[0, 1\]"):
        screen(reward_range=(0.0, 1.0)).report(report(signal(mean, 0.0)), 0)


def test_partly_scored_groups_are_bounded_loosely():
    """One of two scored rewards right: mean 0.5 and deviation 0.5, as no whole group of 3 can have."""
    honest = measure([groups_of([[1.0, 0.0, float("nan")]])], 10)
    assert (honest.reward_std, honest.partial) == (0.5, 1)
    judge = screen(3, reward_range=(0.0, 1.0))
    judge.report(report(honest), 0)
    with pytest.raises(WireError, match="excludes"):
        judge.report(report(signal(0.5, 0.5)), 0)
    with pytest.raises(WireError, match="excludes"):
        judge.report(report(signal(0.5, 0.51, partial=1)), 0)


@given(
    st.floats(-1000, 1000, width=32),
    st.floats(0.125, 1000, width=32),
    st.integers(2, 6).flatmap(
        lambda size: st.lists(
            st.lists(st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0, 1)), min_size=size, max_size=size),
            min_size=1,
            max_size=4,
        )
    ),
)
def test_honest_clients_always_pass(low, width, shares):
    rows = [[min(low + s * width, low + width) for s in row] for row in shares]
    judge = screen(len(rows[0]), reward_range=(low, low + width))
    judge.report(report(measure([groups_of(rows)], 10)), 0)


def test_reports_are_checked_like_uploads():
    for changed, words in ((5, "more changed"), (2**41, "range")):
        with pytest.raises(WireError, match=words):
            screen().report(report(signal(), changed=changed), 0)
    with pytest.raises(WireError, match="another client"):
        screen().report(report(signal()), 1)
    with pytest.raises(WireError, match="expected"):
        screen().report(upload(), 0)


def passed(*norms: float) -> list[Screened]:
    some = Upload.from_bytes(upload(), max_bytes=1 << 20)
    return [Screened(k, some, norm) for k, norm in enumerate(norms)]


@pytest.mark.parametrize(
    ("norms", "limit", "left"),
    [
        ((1.0, 1.2, 12.1), 10.0, [0, 1]),
        ((1.0, 1.2, 11.9), 10.0, [0, 1, 2]),
        ((1.0, 1e30), 10.0, [0, 1]),
        ((1.0, 1.0, 1e30), None, [0, 1, 2]),
        ((0.0, 0.0, 5.0), 10.0, [0, 1, 2]),
        ((1.0, 1.0, 1.0, math.inf), 10.0, [0, 1, 2]),
    ],
)
def test_f11_norms_far_above_the_median_are_refused(norms, limit, left):
    gated = gate_norms(passed(*norms), ScreeningSpec(max_norm=limit), Conduct())
    assert [s.client for s in gated if s.upload is not None] == left
    assert all("median" in (s.reason or "") for s in gated if s.client not in left)


def test_norms_far_above_those_of_earlier_rounds_are_refused_even_alone():
    honest = Conduct(lengths=(({"update": 1.0}, {"update": 1.2}, {"update": 0.9}),))
    gated = gate_norms(passed(12.0), ScreeningSpec(), honest)
    assert gated[0].reason == "update norm 12; the median is 1.1"
    assert gate_norms(passed(12.0), ScreeningSpec(), Conduct())[0].reason is None


def test_dense_values_are_read_too():
    assert reason(upload(Payload("values", encode_dense(torch.ones(4), "float32")))) == ""
