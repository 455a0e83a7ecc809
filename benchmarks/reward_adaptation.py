"""Accuracy of a study's reward models after 0, 1, 2, 4, 8 and 16 local steps of each client.

    OMP_NUM_THREADS=1 python benchmarks/reward_adaptation.py runs/reward-model [--pairs 128] [--out DIR]

Takes the finished runs of studies/reward-model.toml. Each client starts from the model that its run gives it;
accuracy is of `--pairs` held-out pairs a client, the study's own ones and more of the same kind: mean over
groups, and the smaller group. No peer: this prints what local steps are worth, arm by arm.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from hanse.reward_model.bradley_terry import accuracy
from hanse.runs.folder import RunFolder
from hanse.runs.reward_model import RewardModelTraining
from hanse.tasks.build import recipe_task

STEPS = (0, 1, 2, 4, 8, 16)


def curves(folder: RunFolder, pairs: int) -> dict[str, list[float]]:
    """Accuracy after each number of steps: mean over groups, and the smaller group."""
    recipe = folder.recipe()
    task_spec = recipe.task.model_copy(update={"held_out_pairs": pairs})
    recipe = recipe.model_copy(update={"task": task_spec})
    training = RewardModelTraining(recipe, folder.start_path, recipe_task(recipe))
    newest = folder.newest_round()
    assert newest is not None
    training.load(newest)
    values, by_group = training._values(), dict[int, list[list[float]]]()
    for client, problems in sorted(training._owned["held_out"].items()):
        start = training.fleet.model_for(client, values)
        margins = training.fleet.adaptation(client, start, problems, STEPS)
        by_group.setdefault(int(training.labels[client]), []).append([accuracy(m) for m in margins])
    groups = {g: [fmean(column) for column in zip(*rows, strict=True)] for g, rows in by_group.items()}
    small = min(by_group, key=lambda g: (len(by_group[g]), -g))
    return {"mean": [fmean(column) for column in zip(*groups.values(), strict=True)], "small": groups[small]}


def summary(rows: list[list[float]]) -> list[dict[str, float]]:
    """Mean and spread over runs, by number of steps."""
    columns = zip(*rows, strict=True)
    return [{"mean": fmean(c), "sd": stdev(c) if len(c) > 1 else 0.0, "n": len(c)} for c in columns]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("--pairs", type=int, default=128)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    cases: list[dict[str, Any]] = []
    for arm in sorted((options.study / "runs").iterdir()):
        folders = [RunFolder(path) for path in sorted(arm.iterdir()) if (path / "summary.json").is_file()]
        found = [curves(folder, options.pairs) for folder in folders]
        case = {"arm": arm.name, **{key: summary([one[key] for one in found]) for key in ("mean", "small")}}
        case["runs"] = {folder.path.name: one for folder, one in zip(folders, found, strict=True)}
        cases.append(case)
        for key in ("mean", "small"):
            print(f"{arm.name:24} {key:6}", *(f"{one['mean']:.3f}" for one in case[key]), flush=True)
    document = {"steps": list(STEPS), "pairs": options.pairs, "cases": cases}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "reward_adaptation.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
