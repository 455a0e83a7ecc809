"""Runs with secure sums: the plain run's parameters to the stated error, and the same bits after a stop."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from safetensors.torch import load_file

import hanse
from hanse.errors import QuorumError, RecipeError
from hanse.federation.wire.frame import kind_of
from hanse.runtime.host import Host
from tests.end_to_end.small import StopAfter, small_recipe

CHANGED = {
    "rounds": 2,
    "partition": {"clients": 3, "by": "iid"},
    "evaluation": {"every": 2, "problems_per_level": 2, "samples": 1},
}
SECURE = ("federation.secure.enabled=true", "federation.weighting=uniform")


def run(out, *overrides: str, **changes):
    return hanse.train(small_recipe(*overrides, **{**CHANGED, **changes}), out=out)


def rounds(result) -> list[dict]:
    """Rows of rounds, without the evaluation before the first."""
    return [row for row in result.metrics("round") if row["round"] > 0]


def parameters(result) -> torch.Tensor:
    tensors = load_file(next((result.folder / "policy").glob("*.safetensors")))
    return torch.cat([tensors[name].double().flatten() for name in sorted(tensors)])


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    return run(tmp_path_factory.mktemp("secure"), *SECURE)


def test_one_round_is_the_plain_run_to_the_stated_error(tmp_path):
    ours = run(tmp_path / "secure", *SECURE, rounds=1)
    theirs = run(tmp_path / "plain", "federation.weighting=uniform", rounds=1)
    (row,), (other,) = rounds(ours), rounds(theirs)
    stated = row["secure/living"] * row["secure/step"] / 2
    missed = (parameters(ours) - parameters(theirs)).abs().max()
    assert missed <= stated + 2.0**-23 * float(parameters(theirs).abs().max())
    assert parameters(ours).ne(parameters(theirs)).any()
    assert row["comm/bytes_up"] > other["comm/bytes_up"]
    assert row["comm/bytes_down"] > other["comm/bytes_down"]


def test_what_a_run_says(secure):
    for row in rounds(secure):
        assert (row["secure/living"], row["secure/guarantee"]) == (3, "honest-but-curious")
        assert not [key for key in row if key.endswith("/update_norm") and key.startswith("clients/")]
        assert sum(row[key] for key in row if key.endswith("/weight")) == pytest.approx(1)
    told = json.loads((secure.folder / "summary.json").read_text())
    assert told["secure"]["bits"] == 24
    assert told["bytes"]["up"] == sum(row["comm/bytes_up"] for row in rounds(secure))
    assert "secure" in (secure.folder / "report.html").read_text()


def test_resumed_is_uninterrupted_whatever_the_keys(secure, tmp_path):
    """Sums of whole numbers are exact, so other masks leave the same bits."""
    with pytest.raises(KeyboardInterrupt):
        hanse.train(small_recipe(*SECURE, **CHANGED), out=tmp_path, progress=StopAfter(1))
    (folder,) = tmp_path.iterdir()
    assert torch.equal(parameters(hanse.resume(folder)), parameters(secure))


def silencing(monkeypatch, stage: str, rounds: int):
    """One of three clients sends rubbish at a stage, in the first `rounds` rounds."""
    honest, left = Host.answer, [rounds]

    def answer(self, client, message, **settings):
        reply, rows = honest(self, client, message, **settings)
        if client == 1 and kind_of(message) == stage and left[0]:
            left[0] -= 1
            return b"rubbish", rows
        return reply, rows

    monkeypatch.setattr(Host, "answer", answer)


def test_a_rejected_sum_keeps_the_model_and_the_round_is_asked_for_again(monkeypatch, tmp_path):
    silencing(monkeypatch, "secure-delivery", 1)
    result = run(tmp_path, *SECURE, runtime={"patience": 2})
    first, second = rounds(result)
    assert (first["federation/missed_quorum"], second.get("federation/missed_quorum")) == (1, None)
    assert second["secure/living"] == 3


def test_without_patience_it_ends_the_run_in_words(monkeypatch, tmp_path):
    silencing(monkeypatch, "secure-delivery", 9)
    with pytest.raises(QuorumError, match="secure sum rejected: 2 of 3 clients sent a vector; 3 are needed"):
        run(tmp_path, *SECURE)


def test_without_the_extra_a_run_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "Crypto", None)
    with pytest.raises(RecipeError, match=r"\[secure\]") as caught:
        run(tmp_path, *SECURE)
    assert caught.value.field == "federation.secure.enabled"


def test_under_a_rule_of_one_factor_the_sum_is_over_the_other_alone(tmp_path):
    """RoLoRA: a round's masked vector holds the factor that trains, and the plain run is the same."""
    lora = {"policy": {"type": "tiny", "train": "lora"}, "rounds": 1}
    rule = "federation.aggregation=rolora"
    ours = run(tmp_path / "secure", *SECURE, rule, **lora)
    theirs = run(tmp_path / "plain", rule, "federation.weighting=uniform", **lora)
    (row,), pair = (
        rounds(ours),
        [run.folder / "rounds/000001/server-0000.safetensors" for run in (ours, theirs)],
    )
    secure, plain = (load_file(path)["master"].double() for path in pair)
    assert (secure - plain).abs().max() <= row["secure/living"] * row["secure/step"] / 2 + 2.0**-23
    assert 0.2 < row["comm/entries_up"] / (3 * plain.numel()) < 0.8
