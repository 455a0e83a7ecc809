"""Patience with missed quorums: what an attempt leaves behind, and when the run ends."""

from __future__ import annotations

import pytest

from hanse.errors import EXIT_QUORUM, QuorumError
from hanse.federation.records import RoundRecord
from hanse.recipe.runtime import RuntimeSpec
from hanse.runs.quorum import Asked, meet_quorum

ROW = {"loss": 1.0}


def asked(weights, answers, *, refused=(), up=10, down=20) -> Asked:
    return Asked([RoundRecord(4, weights, [], up, down)], answers, [2], list(refused), up, down)


def test_attempts_add_up():
    attempts = [
        asked({}, {1: [ROW]}, refused=["b: late"]),
        asked({0: 0.5, 1: 0.5}, {0: [ROW, ROW], 1: []}, refused=["c: late"]),
    ]
    met = meet_quorum(4, RuntimeSpec(patience=3), lambda: attempts.pop(0))
    assert met.answers == {0: [ROW, ROW], 1: [ROW]}
    assert list(met.answers) == [0, 1]
    assert (met.up, met.down, met.missed) == (20, 40, 1)
    assert met.refused == ["b: late", "c: late"]


@pytest.mark.parametrize("patience", [1, 3])
def test_the_run_ends_when_patience_does(patience):
    calls = []

    def ask():
        calls.append(1)
        return asked({}, {}, refused=["b: no answer"])

    with pytest.raises(QuorumError, match="round 4: no usable upload of 2 needed") as caught:
        meet_quorum(4, RuntimeSpec(patience=patience), ask)
    assert len(calls) == patience
    assert ("3 times in a row" in str(caught.value)) == (patience == 3)
    assert "b: no answer." in str(caught.value)
    assert caught.value.exit_code == EXIT_QUORUM
