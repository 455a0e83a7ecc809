"""The page of a study of lying clients: heat maps of attacks down and defences across."""

from __future__ import annotations

from typing import Any

from hanse.runs.study.page.data import Arm, StudyData
from hanse.runs.study.page.hostile import hostile
from tests.runs.study.made_study import study_data


def arm(attack: str, defence: str, loss: float, **told: float) -> Arm:
    document: dict[str, Any] = {
        "label": f"{attack}-{defence}",
        "group": {"attack": attack, "defence": defence, "ratio": "20 %"},
        "runs": [],
        "mean": 0.5 - loss,
        "sd": None,
        "difference": {"mean": -loss, "interval": [-loss - 0.01, -loss + 0.01]},
        "defence": {key: {"mean": value, "sd": None} for key, value in told.items()},
    }
    return Arm(document["label"], document, [])


def page(*arms: Arm) -> str:
    return str(hostile(StudyData({"baseline": "alone"}, arms)).body)


def test_losses_are_points_and_the_larger_the_stronger():
    shown = page(
        arm("replay", "none", 0.08, attack_success=0.25, honest_refused=1.5),
        arm("replay", "audit", 0.004),
        arm("poison", "none", 0.2),
        arm("poison", "audit", 0.0),
    )
    assert "Accuracy lost against alone, points" in shown
    assert ">8.0<" in shown
    assert "--share:80%" in shown
    assert "--share:100%" in shown  # twenty points, cut off at ten
    assert ">25%<" in shown
    assert "Honest clients refused" in shown
    assert "Liars found" not in shown


def test_swarms_and_studies_without_attacks_have_no_such_section():
    assert not hostile(study_data()).body
    plain = arm("replay", "none", 0.0)
    assert not page(Arm("plain", {**plain.told, "group": {}}, []))
