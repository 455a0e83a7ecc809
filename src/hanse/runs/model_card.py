"""The README of a trained policy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hanse.recipe.adapters import takes_base_along
from hanse.recipe.model import HfPolicy, Recipe
from hanse.runs.report.formats import known, plural, printable, share, size, whole
from hanse.runs.report.outcome import outcome
from hanse.runs.report.reading import name_level, part
from hanse.runs.report.swarm_words import attack_name, defences_in_words, liars

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
_MOST_COLUMNS = 12


def model_card(
    recipe: Recipe,
    summary: Mapping[str, Any],
    partition: Sequence[Mapping[str, Any]],
    *,
    merged: bool = False,
) -> str:
    """A model card: YAML for the hub, how to load, what was reached, how and on whose problems.

    `merged`: of a full model that LoRA's factors were added to.
    """
    lora = recipe.policy.train == "lora" and not recipe.federation_in_force.lifts and not merged
    rounds = plural(summary.get("rounds", recipe.rounds), "round")
    sections = [
        _front_matter(recipe, lora),
        f"# {_inline(recipe.name)}",
        f"{_WHO[recipe.mode]} by GRPO with Hanse, {rounds}.{_base(recipe)}",
        _loading(lora, takes_base_along(recipe.policy)),
        _results(recipe, summary),
        _training(recipe, summary, lora),
        _owners(partition),
        _liars(recipe, summary),
        _guarantee(summary) or _PRIVACY.get(recipe.mode, ""),
        _CITED.get(recipe.mode, _FEDAVG),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


_WHO = {
    "federated": "Trained together by clients that exchanged parameters, not problems,",
    "central": "Trained on everybody's pooled problems",
    "swarm": "Trained by nodes of a swarm that exchanged completions",
    "reward-only": "Trained by a server whose clients scored its completions,",
    "local": "One of several models that clients trained alone, each on its own problems,",
}

_PRIVACY = {
    "federated": """## Privacy

Clients kept their prompts and completions and exchanged parameters, mean rewards, the mean standard
deviation of rewards within groups, and counts. Parameters can reveal something of what they were trained on:
federated training alone is not privacy.""",
    "reward-only": """## Privacy

Every client that was asked has read the server's questions and what the policy answered. Clients sent scores:
of a question that a client owns, they tell its answer. Parameters did not travel.""",
    "swarm": """## Privacy

Nodes sent one another the ids of problems and their completions, so every node has read all of them. Answers,
tests and rewards did not travel: each node scored what it received by itself.""",
}

_GRPO = "## Citation\n\nGRPO: Shao et al., DeepSeekMath, arXiv 2402.03300."
_FEDAVG = f"{_GRPO} FedAvg: McMahan et al., arXiv 1602.05629."
_SWARM = (
    f"{_GRPO} Exchanged completions and attacks on them: Blagoev et al., Hail to the Thief, arXiv 2511.09780."
)

_CITED = {"swarm": _SWARM, "reward-only": f"{_GRPO} FedGRPO: Zhu et al., arXiv 2602.12014."}


def _front_matter(recipe: Recipe, lora: bool) -> str:
    """YAML whose only free text are hub ids; the hub refuses any other base_model, such as a folder."""
    tags = ["grpo", "reinforcement-learning", "hanse", recipe.mode, *(["lora"] if lora else [])]
    lines = [f"library_name: {'peft' if lora else 'transformers'}", "pipeline_tag: text-generation"]
    if isinstance(recipe.policy, HfPolicy) and _HUB_ID.fullmatch(recipe.policy.path):
        lines.append(f"base_model: {json.dumps(recipe.policy.path)}")
    if recipe.task.type == "huggingface" and _HUB_ID.fullmatch(recipe.task.path):
        lines.append(f"datasets: {json.dumps([recipe.task.path])}")
    return "\n".join(["---", *lines, f"tags: {json.dumps(tags)}", "---"])


def _base(recipe: Recipe) -> str:
    if isinstance(recipe.policy, HfPolicy):
        path = recipe.policy.path
        name = path if _HUB_ID.fullmatch(path) else re.split(r"[/\\]", path.rstrip("/\\"))[-1]
        return f" It started from {_inline(name)}."
    return " It started from a model of Hanse's own with about 0.1 million parameters, which only knows sums."


def _loading(lora: bool, with_base: bool) -> str:
    if lora and with_base:
        return _LOADING_WITH_BASE
    name = "AutoPeftModelForCausalLM" if lora else "AutoModelForCausalLM"
    adapted = "from peft import AutoPeftModelForCausalLM\nfrom transformers import AutoTokenizer"
    imports = adapted if lora else "from transformers import AutoModelForCausalLM, AutoTokenizer"
    return f"""## Load

```python
{imports}

model = {name}.from_pretrained("PATH-OF-THIS-FOLDER")
tokenizer = AutoTokenizer.from_pretrained("PATH-OF-THIS-FOLDER")
```"""


_LOADING_WITH_BASE = """## Load

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = "PATH-OF-THIS-FOLDER"
model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(f"{folder}/base"), folder)
tokenizer = AutoTokenizer.from_pretrained(folder)
```

This works wherever the folder is. `AutoPeftModelForCausalLM` looks for the base where adapter_config.json
says: after a move, change `base_model_name_or_path` there to the path of `base/`. `hanse export RUN --merge`
writes a model without an adapter, which loads with transformers alone."""


def _results(recipe: Recipe, summary: Mapping[str, Any]) -> str:
    own = recipe.mode == "local" or recipe.federation_in_force.personal
    whose = " It is the mean over the clients' models." if own else ""
    if recipe.mode == "swarm" and not recipe.swarm.one_policy:
        whose = " It is the mean over the honest nodes' models."
    problems = recipe.evaluation.final_problems_per_level
    return f"""## Held-out accuracy of the last round

On up to {problems} problems a level that nobody trained on.{whose}

{_table(("", "before", "after", "change"), outcome(summary))}"""


def _training(recipe: Recipe, summary: Mapping[str, Any], lora: bool) -> str:
    grpo, policy = recipe.grpo, recipe.policy
    what = "all parameters"
    if policy.train == "lora":
        targets = (
            policy.lora.targets if isinstance(policy.lora.targets, str) else ", ".join(policy.lora.targets)
        )
        what = f"LoRA of rank {policy.lora.rank}, alpha {policy.lora.alpha:g}, on {_inline(targets)}"
        what += "" if lora else ", merged into the base"
    lines = [
        f"task `{recipe.task.type}`; {_rewards(recipe)}",
        f"{what}, {policy.dtype}",
        f"{grpo.prompts_per_step} prompts × {grpo.group_size} completions a step, "
        f"{grpo.local_steps} steps a round",
        f"up to {grpo.max_new_tokens} new tokens at temperature {grpo.temperature:g}",
        f"objective `{grpo.objective}`, AdamW, learning rate {grpo.lr:g}, KL weight {grpo.beta:g}",
        *_exchange(recipe, summary),
        f"seed {recipe.seed}",
    ]
    return "\n".join(["## Training", "", *(f"- {line}" for line in lines)])


def _rewards(recipe: Recipe) -> str:
    if not recipe.rewards:
        return "rewarded for that alone, nothing else was checked"
    names = [
        _inline(reward.name or (reward.path or "").rpartition(":")[2])
        + ("" if reward.weight == 1 else f" (weight {reward.weight:g})")
        for reward in recipe.rewards
    ]
    return f"rewarded by {', '.join(names)}; nothing else was checked"


def _exchange(recipe: Recipe, summary: Mapping[str, Any]) -> list[str]:
    if recipe.mode == "swarm":
        return [_swarm(recipe)]
    if recipe.mode == "reward-only":
        return [_scored(recipe, summary)]
    if recipe.mode != "federated":
        return []
    total = part(summary, "bytes")
    moved = f"; {size(total.get('up'))} up, {size(total.get('down'))} down" if total.get("up") else ""
    return [
        f"aggregation `{recipe.federation.aggregation}`, weighting `{recipe.federation.weighting}`{moved}"
    ]


def _scored(recipe: Recipe, summary: Mapping[str, Any]) -> str:
    spec, total = recipe.reward_only, part(summary, "bytes")
    who = f"{spec.experts} of {plural(recipe.partition.clients, 'client')} a question, by {spec.choice}"
    how = "by reward models of their own" if spec.models else "by their own models' answers"
    moved = f"; {size(total.get('up'))} up, {size(total.get('down'))} down" if total.get("up") else ""
    return f"scored by {who}, {how} where a client does not own the question{moved}"


def _swarm(recipe: Recipe) -> str:
    swarm = recipe.swarm
    chain = defences_in_words(recipe.model_dump(mode="json"))
    return (
        f"{swarm.topology} swarm of {plural(swarm.nodes, 'node')} with {_inline(chain)}; foreign completions "
        f"weighted `{swarm.foreign_weight}`"
    )


def _liars(recipe: Recipe, summary: Mapping[str, Any]) -> str:
    """Who takes the model shall know what it may have learnt."""
    names = liars(recipe.model_dump(mode="json"))
    if recipe.mode != "swarm" or not names:
        return ""
    told, attack = part(summary, "swarm"), attack_name(recipe.adversary.completions.type)
    reached = known(told.get("attack_success"))
    showed = "" if reached is None else f" At the end {share(reached)} of honest completions showed it."
    rejected = known(told.get("honest_rejects"))
    cost = "" if rejected is None else f" Defences rejected {share(rejected)} of what honest nodes sent."
    who = f"{', '.join(names)} of {plural(recipe.swarm.nodes, 'node')} lied by {attack}."
    return f"""## Attacked on purpose

This model comes from a study of attacks: {who}{showed}{cost}
Do not use it for anything else."""


def _guarantee(summary: Mapping[str, Any]) -> str:
    """Of a run under `[privacy]`, in the words of the summary."""
    words = part(summary, "privacy").get("guarantee")
    return f"## Privacy\n\n{words}" if isinstance(words, str) else ""


def _owners(partition: Sequence[Mapping[str, Any]]) -> str:
    """Training problems by owner and level; where clients brought their own, only who they were."""
    if not partition:
        return ""
    if all(row.get("problems") is None for row in partition):
        who = ", ".join(_inline(str(row["client"])) for row in partition)
        return f"## Who owned the problems\n\nEach client brought its own and kept them: {who}."
    names = list(dict.fromkeys(key for row in partition for key in row if key not in ("client", "problems")))
    names = names if len(names) <= _MOST_COLUMNS else []
    heads = ["owner", "problems", *map(name_level, names)]
    rows = [
        [str(row["client"]), whole(row.get("problems")), *(whole(row.get(name, 0)) for name in names)]
        for row in partition
    ]
    return f"## Who owned the problems\n\n{_table(heads, rows)}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in heads[1:])]
    lines = [[_inline(cell) for cell in heads], rule, *([_inline(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _inline(text: str) -> str:
    """One harmless line of Markdown."""
    flat = " ".join(printable(text).split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#&~$" else c for c in flat)
