"""What a study tells of swarms: numbers by hand, the grid and its maps, and one study that runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hanse.errors import RecipeError
from hanse.recipe.load import dump_recipe
from hanse.recipe.study import load_study
from hanse.runs.study import run_study
from hanse.runs.study.document import failures
from hanse.runs.study.page.data import Arm, StudyData
from hanse.runs.study.page.grid import grid_of, length_without_liars
from hanse.runs.study.page.swarm import swarm
from hanse.runs.study.page.write import render
from hanse.runs.study.swarm import of_arm, of_run, value_at
from tests.end_to_end.small import small_recipe
from tests.runs.study.made_study import arm_of, study_data


def text(html: str) -> str:
    return re.sub(r"<[^>]+>", " ", html)


def part_of(html: str, caption: str) -> str:
    """The table with this caption."""
    return next(t for t in re.findall(r"<table>.*?</table>", html, re.DOTALL) if f">{caption}<" in t)


def row_of(table: str, *labels: str) -> list[str]:
    """The cells of the row that begins with these labels."""
    for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL):
        cells = [text(cell).strip() for cell in re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL)]
        if cells[: len(labels)] == list(labels):
            return cells[len(labels) :]
    raise AssertionError(labels)


def test_a_value_at_a_round_is_the_mean_of_three() -> None:
    curve = [(float(n), n / 10) for n in range(1, 6)]
    assert value_at(curve, 4) == pytest.approx(0.3)
    assert value_at(curve, 1) == pytest.approx(0.1)
    assert value_at(curve, 5) == pytest.approx(0.4)
    assert value_at(curve, 6) is None and value_at([], 1) is None
    assert value_at([(1.0, 0.0), (7.0, 0.6)], 5) == 0.0  # rounds in which nothing could be counted


def test_a_run_tells_its_swarm_and_others_have_none() -> None:
    rows = [{"round": n, "swarm/attack_success": n / 4, "swarm/length": 10 + n} for n in (2, 1, 3)]
    control = {"attack_success": 0.0, "length": 10.0}
    told = of_run({"swarm": {"attack_success": 0.75, "control": control}}, rows, [2, 9])
    assert told is not None
    assert told["curves"]["attack_success"] == [[1, 0.25], [2, 0.5], [3, 0.75]]
    assert told["curves"]["honest_reward"] == [] and told["honest_reward"] is None
    assert told["attack_success_at"] == {"2": 0.375, "9": None}
    assert told["control"]["length"] == 10.0
    assert of_run({"rounds": 3}, rows, [2]) is None


def test_an_arm_has_mean_spread_and_interval() -> None:
    runs: list[dict[str, Any]] = [
        {
            "swarm": {
                "attack_success": value,
                "attack_success_at": {"5": value / 2},
                "curves": {"length": [[1, 10.0 * value], [2, 20.0]]},
            }
        }
        for value in (0.2, 0.4)
    ]
    told = of_arm([*runs, {"seed": 1}])
    assert told is not None
    assert told["attack_success"]["n"] == 2 and told["attack_success"]["mean"] == pytest.approx(0.3)
    assert told["attack_success"]["sd"] == pytest.approx(0.2 / 2**0.5)
    low, high = told["attack_success"]["interval"]
    assert low < 0.3 < high
    assert told["attack_success_at"]["5"]["mean"] == pytest.approx(0.15)
    assert told["curves"]["length"][0][:2] == [1, 3.0] and told["curves"]["length"][1] == [2, 20.0, 0.0]
    assert told["honest_reward"]["mean"] is None
    assert of_arm([{"seed": 1}]) is None and of_arm([]) is None


def test_the_grid_has_attacks_down_and_defences_across() -> None:
    grid = grid_of(study_data())
    assert grid is not None
    assert list(grid.columns) == ["none", "top-k", "default"]
    assert grid.attacks == ["text", "dos"] and len(grid.places) == 10
    assert grid.labels(("text", "vertical", "25 %")) == ["TEXT", "vertical", "25 %"]
    assert grid_of(study_data(grid=False)) is None


def test_labels_that_no_arm_has_are_left_out() -> None:
    arm = arm_of("a", "text", "none", {"attack": "text", "defence": "none"})
    grid = grid_of(StudyData(study_data().document, [arm]))
    assert grid is not None and grid.heads == ["attack"] and grid.labels(grid.places[0]) == ["TEXT"]


def test_maps_have_a_number_in_every_cell() -> None:
    body = swarm(study_data()).body
    end, at = part_of(body, "Attack success at the end"), part_of(body, "Attack success at round 20")
    assert row_of(end, "TEXT", "vertical", "25 %") == ["98%", "10%", "0%"]
    assert row_of(at, "TEXT", "vertical", "25 %") == ["89%", "9%", "0%"]
    assert row_of(end, "nobody lies", "vertical", "0 %") == ["0%"] * 3 and "DoS" not in end
    reward = part_of(body, "Honest reward at the end")
    assert row_of(reward, "nobody lies", "vertical", "0 %") == ["0.79"] * 3
    assert row_of(part_of(body, "Honest completions rejected"), "DoS", "vertical", "25 %") == ["0.4%"] * 3


def test_length_is_told_against_the_arm_in_which_nobody_lies() -> None:
    table = part_of(swarm(study_data()).body, "Length against no attack")
    assert row_of(table, "DoS", "horizontal", "25 %") == ["2.20×", "1.12×", "1.00×"]
    assert "TEXT" not in table


def test_an_own_control_goes_before_another_arm() -> None:
    data = study_data()
    grid = grid_of(data)
    assert grid is not None
    place = ("dos", "horizontal", "25 %")
    assert length_without_liars(grid, place, "none") == pytest.approx(20.0)
    arm = grid.at(place, "none")
    assert arm is not None
    for run in arm.told["runs"]:
        run["swarm"]["control"] = {"length": 11.0}
    assert length_without_liars(grid, place, "none") == pytest.approx(11.0)


def test_arms_in_which_nobody_lies_may_be_called_by_what_is_measured() -> None:
    places = {"nobody (TEXT)": "none", "dos": "dos"}
    arms = [
        arm_of(label, attack, "none", {"attack": label, "defence": "none"})
        for label, attack in places.items()
    ]
    data = StudyData(study_data().document, arms)
    grid = grid_of(data)
    assert grid is not None and grid.attacks == ["dos"]
    assert grid.labels(grid.places[0]) == ["nobody (TEXT)"]
    body = swarm(data).body
    assert row_of(part_of(body, "Length against no attack"), "DoS") == ["2.20×"]
    assert "nobody (TEXT) over rounds" not in body


def test_a_defence_against_one_attack_has_a_row_instead_of_a_column() -> None:
    data = study_data()
    rare = {"attack": "text", "topology": "horizontal", "ratio": "25 %", "defence": "top-k, zero"}
    arm = arm_of("rare", "text", "top-k", rare)
    body = swarm(StudyData(data.document, [*data.arms, arm])).body
    assert "top-k, zero" not in part_of(body, "Attack success at the end")
    further = part_of(body, "Further defences, each against one attack")
    assert row_of(further, "TEXT", "horizontal", "25 %", "top-k, zero") == ["10%", "9%", "0.69", "0.4%"]
    assert "Further defences" not in swarm(data).body


def test_without_anything_to_compare_with_length_is_in_tokens() -> None:
    arm = arm_of("a", "dos", "none", {"attack": "dos", "defence": "none"})
    body = swarm(StudyData(study_data().document, [arm])).body
    assert row_of(part_of(body, "Length against no attack"), "DoS") == ["43.9"]


def test_curves_have_a_line_a_defence() -> None:
    body = swarm(study_data()).body
    start = body.index("TEXT over rounds")
    text_part = body[start : body.index("DoS over rounds")]
    assert text_part.count("<figure") == 4 and "horizontal, 8.3 %" in text_part
    assert "top-k: 0.00244 in round 1" in text_part and "attack success by round" in text_part
    assert "mean tokens of honest nodes by round" in body[body.index("DoS over rounds") :]


def test_a_few_arms_without_labels_share_a_chart() -> None:
    body = swarm(study_data(grid=False)).body
    assert "Every arm in numbers" not in body and "<b>Attack success</b>" in body
    cells = row_of(part_of(body, "Arms of swarms"), "none-horizontal-0-none")
    assert cells[0] == "0.000 ± 0.000" and cells[1] == "0.790 ± 0.010"


def test_other_studies_have_no_such_section_and_many_arms_no_rainbow() -> None:
    data = study_data()
    arms = [Arm(a.name, {k: v for k, v in a.told.items() if k != "swarm"}, a.rounds) for a in data.arms]
    plain = StudyData(data.document, arms)
    assert swarm(plain).body == "" and 'id="swarm"' not in render(plain)
    page = render(data)
    training = page[page.index('id="training"') : page.index('id="runs"')]
    assert "line faint" in training and training.count("<li>") <= 2


STUDY = """
name = "hail"
recipe = "base.toml"
baseline = "none"
seeds = [0]
rounds_of_interest = [2]
[[arms]]
name = "none"
group = { attack = "none", defence = "none" }
[[arms]]
name = "garbage"
set = { "adversary.nodes" = [1] }
group = { attack = "garbage", defence = "none" }
"""


def study_file(folder: Path, study: str = STUDY) -> Path:
    base = small_recipe(
        mode="swarm",
        rounds=2,
        grpo={"local_steps": 1},
        swarm={"nodes": 2, "defences": "none"},
        adversary={"completions": {"type": "garbage"}},
    )
    (folder / "base.toml").write_text(dump_recipe(base))
    (folder / "hail.toml").write_text(study)
    return folder / "hail.toml"


def test_a_study_that_runs(tmp_path: Path) -> None:
    run_study(load_study(study_file(tmp_path)), out=tmp_path)
    document = json.loads((tmp_path / "hail/study.json").read_text())
    assert failures(document) == []
    arm = document["arms"]["garbage"]
    summary = json.loads((tmp_path / "hail/runs/garbage/seed-0/summary.json").read_text())
    assert arm["group"] == {"attack": "garbage", "defence": "none"}
    assert arm["swarm"]["honest_reward"]["mean"] == summary["swarm"]["honest_reward"]
    assert len(arm["runs"][0]["swarm"]["curves"]["length"]) == 2
    assert set(arm["runs"][0]["swarm"]["attack_success_at"]) == {"2"}
    page = (tmp_path / "hail/study.html").read_text()
    assert "Honest reward at the end" in page and "nobody lies" in page


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('attack = "garbage", defence', 'attack = "none", defence', "arm none has the same labels"),
        ("[2]\n[[arms]]", "[0]\n[[arms]]", "rounds_of_interest"),
        ("[2]\n[[arms]]", "[2, 2]\n[[arms]]", "2 appears more than once"),
        ('"garbage", defence = "none"', '"garbage", defence = 3', "group"),
    ],
)
def test_study_files_that_make_no_sense(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in STUDY
    with pytest.raises(RecipeError, match=words):
        load_study(study_file(tmp_path, STUDY.replace(old, new)))
