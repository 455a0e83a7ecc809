"""Recipe lines in the documentation of methods load, and their options are all in force."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from hanse.recipe.advice import advice
from hanse.recipe.audit import AuditSpec
from hanse.recipe.load import load_recipe
from hanse.recipe.public import PublicSpec
from hanse.recipe.robust import RobustName, RobustSpec
from hanse.recipe.secure import SecureSpec

FOLDER = Path(__file__).parents[2] / "docs" / "methods"
FENCE = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = (
    "fed-grpo.md",
    "fedgrpo.md",
    "fedmoa.md",
    "hostile-clients.md",
    "pubswap.md",
    "reward-model.md",
    "rivals.md",
    "robust.md",
    "secure-aggregation.md",
)
BLOCKS = [(page, text) for page in PAGES for text in FENCE.findall((FOLDER / page).read_text())]


@pytest.mark.parametrize(("page", "text"), BLOCKS)
def test_recipe_lines_load_and_have_an_effect(page: str, text: str) -> None:
    document = tomllib.loads(text)
    loaded = load_recipe({"grpo": {"lr": 1e-3}} | document)
    assert [note for note in advice(loaded) if "no effect" in note] == []


def test_every_option_of_the_federation_is_described_somewhere() -> None:
    from hanse.recipe import federation as spec

    text = "".join((FOLDER / name).read_text() for name in (*PAGES, "fedavg.md", "lora-aggregation.md"))
    sections = (
        spec.WeightsSpec,
        spec.CalibrationSpec,
        spec.BudgetSpec,
        spec.ScreeningSpec,
        AuditSpec,
        PublicSpec,
        RobustSpec,
        SecureSpec,
        spec.FederationSpec,
    )
    missing = [name for section in sections for name in section.model_fields if name not in text]
    assert missing == []
    for names in (spec.WeightingName, spec.ServerOptimizerName, spec.LocalName, RobustName):
        assert [name for name in names.__args__ if f"`{name}`" not in text] == []
