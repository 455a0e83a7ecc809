"""The Python in the documents runs as printed, each block in a namespace of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import hanse
from hanse.policy.export import load_trained, save_policy
from hanse.recipe.load import load_recipe
from hanse.recipe.model import TinyPolicy
from hanse.recipe.study import load_study

ROOT = Path(__file__).parent.parent


def blocks(file: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(), re.DOTALL)


def block(file: str, word: str, language: str = "python") -> str:
    (found,) = (text for text in blocks(file, language) if word in text)
    return found


def run(code: str, **names: object) -> dict:
    exec(compile(code, "document", "exec"), names)
    return names


def test_the_guide_has_no_block_that_is_not_tested_here():
    assert [
        next(w for w in ("PeftModel", "Learner", "OBJECTIVES") if w in b) for b in blocks("docs/guide.md")
    ]
    assert len(blocks("docs/guide.md")) == 3


def test_the_parts_alone_learn_and_say_so(capsys):
    names = run(block("docs/guide.md", "Learner("))
    rewards = [float(line.split("reward ")[1]) for line in capsys.readouterr().out.splitlines()]
    assert len(rewards) == 4 and rewards[-1] > max(rewards[0], 2)
    assert names["metrics"]["learning_rate"] == 1e-2


def test_an_objective_is_what_it_says(capsys):
    run(block("docs/guide.md", "OBJECTIVES"))
    assert capsys.readouterr().out == "-0.5\n"


@pytest.mark.parametrize("file", ["README.md", "docs/guide.md"])
def test_a_moved_adapter_loads_with_its_base(file, tmp_path, monkeypatch):
    policy = hanse.build_policy(TinyPolicy(train="lora"), seed=0)
    policy.parameters.load(torch.randn(policy.parameters.numel, generator=torch.Generator().manual_seed(0)))
    save_policy(policy, tmp_path / "written")
    (tmp_path / "written").rename(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    model = run(block(file, "PeftModel"))["model"].eval()
    ids = torch.tensor([policy.encode("123+456=")])
    assert torch.equal(model(ids).logits, load_trained(tmp_path / "my-model").model(ids).logits)


def test_the_training_example_trains_the_quickstart_only_as_a_script(monkeypatch):
    code = block("README.md", "hanse.train")
    run(code, __name__="imported")
    asked = []
    summary = {"evaluation": {"final": {"accuracy": 0.5}}}
    monkeypatch.setattr(hanse, "train", lambda recipe: asked.append(recipe) or hanse.Run(Path("r"), summary))
    monkeypatch.chdir(ROOT)
    run(code, __name__="__main__")
    assert asked == [load_recipe(ROOT / "recipes/quickstart.toml")]


def test_the_study_of_the_documentation_is_one(tmp_path):
    text = block("docs/studies.md", "[[arms]]", "toml")
    assert 'recipe = "arithmetic-by-level.toml"' in text
    (tmp_path / "arithmetic-by-level.toml").write_text(
        (ROOT / "studies/arithmetic-by-level.toml").read_text()
    )
    (tmp_path / "study.toml").write_text(text)
    assert load_study(tmp_path / "study.toml").spec.baseline == "fedavg-samples"


def test_documents_name_files_that_exist():
    for file in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = file.read_text()
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        links = [m for m in re.findall(r"\]\(([^)#]+)[^)]*\)", prose) if "://" not in m]
        for path in links:
            assert (file.parent / path).exists(), f"{file.name}: {path}"
        for path in re.findall(r"\b(?:recipes|studies)/[\w.-]+\.toml", text):
            assert (ROOT / path).is_file(), f"{file.name}: {path}"
