"""The README of a trained reward model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hanse.recipe.model import Recipe
from hanse.runs.report.formats import fixed, plural
from hanse.runs.report.reading import part

_METHODS = {
    "fedavg": "one model of clients drawn uniformly",
    "debiased": "one model of clients drawn by group, a group uniformly and then a client in it",
    "oracle": "a model for each group that the data tells",
    "clustered": "several models, of which every client trains the one with the lowest loss",
}


def reward_model_card(recipe: Recipe, summary: Mapping[str, Any]) -> str:
    """What it is, how to use it, what was reached: in Markdown."""
    spec, final = recipe.reward_model, part(summary, "evaluation", "final")
    told = part(summary, "reward_model")
    steps, clients = plural(spec.adaptation, "local step"), plural(recipe.partition.clients, "client")
    rounds = plural(summary.get("rounds", recipe.rounds), "round")
    return f"""# {recipe.name}

A Bradley–Terry reward model, trained by {clients} that exchanged parameters, not preferences:
{_METHODS[spec.method]}; {rounds}.

## Use

```toml
[[rewards]]
type = "reward-model"
path = "PATH-OF-THIS-FOLDER"
arguments = {{ pairs = "YOUR-PAIRS.jsonl" }}
```

Where clients disagree, the shared model is a start and no judge: it is for being adapted by some steps on
one's own pairs, which `pairs` does. Without it the model is used as it is.

## Held-out accuracy

| | mean of groups | worst group |
| --- | ---: | ---: |
| as it is | {fixed(final.get("accuracy_greedy"))} | {fixed(told.get("worst_before"))} |
| after {steps} of each client | {fixed(final.get("accuracy"))} | {fixed(final.get("worst_level"))} |

The first row's worst group is of validation pairs.

## Privacy

Preferences stayed with their clients. Parameters can reveal something of what they were trained on: federated
training alone is not privacy. Directions of updates tell the server who agrees with whom.

## Citation

Bradley and Terry, Biometrika 39 (1952). FedAvg: McMahan et al., arXiv 1602.05629. Group-debiased sampling:
Kim et al., arXiv 2608.01556; clusters: Ghosh et al., arXiv 2006.04088.
"""
