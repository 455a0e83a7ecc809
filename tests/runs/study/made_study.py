"""A study of swarms as its page gets it, made by hand."""

from __future__ import annotations

from typing import Any

from hanse.runs.study.page.data import Arm, StudyData
from hanse.runs.study.swarm import of_arm, of_run
from tests.runs.report.made import Rows, rows_of

EMPTY: dict[str, Any] = {"n": 0, "mean": None, "sd": None, "interval": None}
STRENGTH = {"none": 1.0, "top-k": 0.1, "default": 0.0}


def rounds_of(attack: str, strength: float, seed: int) -> Rows:
    rows = rows_of(attack != "dos", attacked=attack != "none")
    for row in rows[1:]:
        if "swarm/attack_success" in row:
            row["swarm/attack_success"] *= strength * (1 - 0.02 * seed)
        row["swarm/length"] = 20 + (row["swarm/length"] - 20) * strength * (3 if attack == "dos" else 1)
    return rows


def run_of(attack: str, strength: float, seed: int) -> tuple[dict[str, Any], Rows]:
    rows = rounds_of(attack, strength, seed)
    last = rows[-1]
    summary = {
        "swarm": {
            "attack_success": last.get("swarm/attack_success"),
            "honest_reward": last["swarm/honest_reward"] - 0.01 * seed,
            "honest_rejects": 0.004,
            "length": last["swarm/length"],
            "stop_rate": 0.97,
            "refused_bundles": 0,
        }
    }
    record = {
        "seed": seed,
        "start": None,
        "folder": f"runs/x/seed-{seed}",
        "accuracy": 0.5,
        "accuracy_greedy": 0.5,
        "worst_level": 0.4,
        "bytes": {"up": 1000, "down": 3000},
        "rollouts": 100,
        "seconds": 10.0,
        "policy_sha256": "ab" * 32,
        "swarm": of_run(summary, rows, [20]),
    }
    return record, rows


def arm_of(name: str, attack: str, defence: str, group: dict[str, str] | None) -> Arm:
    made = [run_of(attack, STRENGTH[defence], seed) for seed in (0, 1, 2)]
    runs = [record for record, _ in made]
    told = {
        "label": name,
        **({"group": group} if group else {}),
        "settings": {},
        "published": None,
        "planned": 3,
        "runs": runs,
        "n": 3,
        "mean": 0.5,
        "sd": 0.01,
        "interval": [0.49, 0.51],
        "accuracy_greedy": EMPTY,
        "by_sample": EMPTY,
        "worst_level": EMPTY,
        "solved": EMPTY,
        "by_level": {},
        "bytes": {"up": 1000.0, "down": 3000.0},
        "rollouts": 100.0,
        "compression": None,
        "rounds_to": {},
        "tuning": None,
        "failed": [],
        "difference": None,
        "swarm": of_arm(runs),
    }
    return Arm(name, told, [rows for _, rows in made])


def study_data(grid: bool = True) -> StudyData:
    arms = []
    for attack in ("none", "text", "dos"):
        for topology in ("horizontal", "vertical"):
            for ratio in ("8.3 %", "25 %") if attack != "none" else ("0 %",):
                for defence in STRENGTH:
                    group = {"attack": attack, "topology": topology, "ratio": ratio, "defence": defence}
                    name = f"{attack}-{topology}-{ratio[:-2]}-{defence}"
                    arms.append(arm_of(name, attack, defence, group if grid else None))
    kept = arms if grid else arms[:6:2]
    document = {
        "name": "hail",
        "baseline": kept[0].name,
        "seeds": [0, 1, 2],
        "starts": [],
        "development_seeds": [],
        "accuracy_targets": [],
        "overrides": [],
        "contrasts": [],
        "command": "hanse study hail.toml",
        "machine": {"python": "3.11"},
        "arms": {arm.name: arm.told for arm in kept},
    }
    return StudyData(document, kept)
