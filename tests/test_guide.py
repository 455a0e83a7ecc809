"""The guide's Python runs as printed."""

import re
from pathlib import Path

import torch

ROOT = Path(__file__).parent.parent


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs/guide.md").read_text(), re.DOTALL)


def test_the_parts_alone_learn_and_the_objective_is_what_it_says():
    names: dict = {"torch": torch}
    parts, objective = blocks()
    exec(parts, names)
    first = names["sampler"].sample(names["problems"], 8, list(range(8)))
    texts = names["policy"].decode([row for group in first for row in group.token_ids_G()])
    assert sum(text.count("1") for text in texts) / len(texts) > 2
    assert names["metrics"]["learning_rate"] == 1e-2
    exec(objective, names)
    assert names["loss"].item() == -0.5
