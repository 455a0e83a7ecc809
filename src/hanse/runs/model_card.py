"""The README of a trained policy."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hanse.recipe.model import HfPolicy, Recipe
from hanse.runs.progress import number


def model_card(recipe: Recipe, summary: Mapping[str, Any], partition: Sequence[Mapping[str, Any]]) -> str:
    """A model card: YAML for the hub, how to load, what was reached, how it was trained."""
    lora = recipe.policy.train == "lora"
    sections = [
        _front_matter(recipe, lora),
        f"# {_inline(recipe.name)}",
        f"Trained by GRPO with Hanse, mode `{recipe.mode}`, {summary.get('rounds')} rounds.",
        _loading(lora),
        _results(summary),
        _training(recipe, partition),
        _PRIVACY if recipe.mode == "federated" else "",
        _CITATION,
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


_PRIVACY = """## Privacy

Clients kept their prompts and completions and exchanged parameters, mean rewards and counts. Parameters can
reveal something of what they were trained on: federated training alone is not privacy."""

_CITATION = """## Citation

GRPO: Shao et al., DeepSeekMath, arXiv 2402.03300. FedAvg: McMahan et al., arXiv 1602.05629."""


def _front_matter(recipe: Recipe, lora: bool) -> str:
    """YAML by way of JSON strings, which YAML accepts, whatever the names hold."""
    base = [f"base_model: {json.dumps(recipe.policy.path)}"] if isinstance(recipe.policy, HfPolicy) else []
    tags = ["grpo", "reinforcement-learning", "hanse", recipe.mode]
    lines = ["---", f"library_name: {'peft' if lora else 'transformers'}", *base]
    return "\n".join([*lines, "pipeline_tag: text-generation", f"tags: {json.dumps(tags)}", "---"])


def _loading(lora: bool) -> str:
    name = "AutoPeftModelForCausalLM" if lora else "AutoModelForCausalLM"
    adapted = "from peft import AutoPeftModelForCausalLM\nfrom transformers import AutoTokenizer"
    imports = adapted if lora else "from transformers import AutoModelForCausalLM, AutoTokenizer"
    return f"""## Load

```python
{imports}

model = {name}.from_pretrained("PATH-OF-THIS-FOLDER")
tokenizer = AutoTokenizer.from_pretrained("PATH-OF-THIS-FOLDER")
```"""


def _results(summary: Mapping[str, Any]) -> str:
    evaluation = summary.get("evaluation") or {}
    before, after = evaluation.get("initial") or {}, evaluation.get("final") or {}
    rows = ["## Held-out accuracy of the last round", "", "| | before | after |", "|---|---|---|"]
    for label, key in (("sampled at T=1", "accuracy"), ("greedy", "accuracy_greedy")):
        rows.append(f"| {label} | {number(before.get(key))} | {number(after.get(key))} |")
    for name, value in (after.get("by_level") or {}).items():
        first = (before.get("by_level") or {}).get(name)
        rows.append(f"| level {_inline(name)}, sampled | {number(first)} | {number(value)} |")
    return "\n".join(rows)


def _training(recipe: Recipe, partition: Sequence[Mapping[str, Any]]) -> str:
    grpo = recipe.grpo
    owners = ", ".join(f"{_inline(str(row['client']))} ({row['problems']})" for row in partition)
    return f"""## Training

- task `{recipe.task.type}`; problems by client: {owners}
- {grpo.prompts_per_step} prompts × {grpo.group_size} completions a step, {grpo.local_steps} steps a round
- objective `{grpo.objective}`, AdamW, learning rate {grpo.lr:g}, KL weight {grpo.beta:g}
- aggregation `{recipe.federation.aggregation}`, weighting `{recipe.federation.weighting}`
- seed {recipe.seed}"""


def _inline(text: str) -> str:
    """One harmless line of Markdown."""
    flat = " ".join(str(text).split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#&" else c for c in flat)
