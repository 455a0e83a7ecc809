"""What a private client's noise is bound to, beside what it is sent."""

from __future__ import annotations

import pytest

from hanse.recipe.load import load_recipe
from hanse.runtime.privacy import setting_of

BASE = {"mode": "central", "policy": {"type": "tiny"}, "task": {"type": "arithmetic"}}


def of(*overrides: str, **more) -> str:
    return setting_of(load_recipe(BASE | more, overrides))


@pytest.mark.parametrize(
    "override",
    ["rounds=3", "grpo.lr=1e-3", "runtime.threads=2", "policy.hidden=32", "federation.moments=reset"],
)
def test_what_decides_steps_is_in_the_setting(override):
    assert of(override) != of()


@pytest.mark.parametrize("override", ["name=other", "evaluation.every=3", "runtime.workers=2"])
def test_what_does_not_is_not(override):
    assert of(override) == of()


def test_a_file_of_rewards_counts_by_what_it_says(tmp_path):
    """Else an edited function is asked under the noise that the old one had."""
    file = tmp_path / "reward.py"
    rewards = [{"path": f"{file}:reward"}]
    found = []
    for text in ("A = 1\n", "A = 2\n", "A = 1\n"):
        file.write_text(text)
        found.append(of(rewards=rewards))
    assert found[0] == found[2] != found[1]
    file.unlink()
    assert of(rewards=rewards) != found[0]


def test_so_does_a_file_of_nodes_and_every_file_of_a_reward_model(tmp_path):
    nodes, folder = tmp_path / "nodes.json", tmp_path / "model" / "backbone"
    folder.mkdir(parents=True)
    nodes.write_text("{}")
    (folder / "weights").write_bytes(b"a")
    more = {
        "rewards": [{"type": "reward-model", "path": str(folder.parent)}],
        "grpo": {"shaping": {"consensus": {"enabled": True, "nodes": str(nodes)}}},
    }
    first = of(**more)
    nodes.write_text("{ }")
    second = of(**more)
    (folder / "weights").write_bytes(b"b")
    assert len({first, second, of(**more)}) == 3
