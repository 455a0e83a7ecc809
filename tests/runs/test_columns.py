"""What a progress display shows of a swarm."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from hanse.cli.outcome import print_outcome
from hanse.runs.columns import fitting, parties, who
from hanse.runs.progress import LiveProgress, PlainProgress
from hanse.runs.report.outcome import swarm_remarks

ROW = {
    "round": 3,
    "reward": 0.5,
    "evaluation/accuracy": 0.25,
    "swarm/attack_success": 0.625,
    "swarm/honest_reward": 0.5,
    "swarm/honest_rejects": 0.004,
    "comm/bytes_up": 20_000,
    "comm/bytes_down": 60_000,
    "seconds": 4.0,
}
SUMMARY = {
    "swarm": {
        "attack_success": 0.625,
        "honest_reward": 0.5,
        "honest_rejects": 0.004,
        "length": 21.0,
        "control": {"attack_success": 0.0, "honest_reward": 0.75, "length": 20.0, "honest_rejects": 0.0},
    }
}
NODES = [f"node-{i}" for i in range(4)]


def test_a_swarm_has_columns_of_its_own() -> None:
    plain, _ = fitting(["1"], True, 100)
    swarm, _ = fitting(["1"], True, 100, swarm=True)
    keys = [key for key, _ in swarm]
    assert keys[1:4] == ["swarm/attack_success", "swarm/honest_reward", "swarm/honest_rejects"]
    assert "reward" not in keys and "reward" in [key for key, _ in plain]


def test_columns_fit_into_eighty_characters_by_leaving_levels_out() -> None:
    columns, gap = fitting([str(i) for i in range(20)], True, 80, swarm=True)
    widths = [max(*(len(line) for line in head.split("\n")), 5) for _, head in columns]
    assert sum(widths) + gap * len(widths) <= 80
    assert ("seconds", "s") in columns


def test_parties_are_called_what_they_are() -> None:
    assert parties(NODES) == "4 nodes" and who(NODES).startswith("4 nodes: node-0, ")
    assert parties(["level-1"]) == "1 client" and parties([]) == "0 clients"
    assert parties(["node-0", "hospital"]) == "2 clients"


def test_the_live_table_names_them() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, height=30, color_system=None)
    live = LiveProgress(console)
    live.started("hail", 5, NODES, ["1"])
    live.round_done(ROW)
    live.stop()
    text = stream.getvalue()
    assert "hail: 5 rounds, 4 nodes" in text
    for word in ("success", "rejects", "0.625", "0.004"):
        assert word in text


def test_plain_lines_name_them() -> None:
    stream = io.StringIO()
    plain = PlainProgress(stream)
    plain.started("hail", 5, NODES, [])
    plain.round_done(ROW)
    assert "reward 0.500  attack success 0.625  honest rejects 0.004  accuracy 0.250" in stream.getvalue()


def test_the_outcome_has_the_control_in_brackets(capsys) -> None:
    words = (
        "Swarm: attack success 0.625 (0.000 without liars), honest reward 0.500 (0.750 without liars), "
        "honest rejects 0.004 (0.000 without liars)."
    )
    assert swarm_remarks(SUMMARY) == [words]
    print_outcome(Path("runs/hail-001"), SUMMARY, reached=True)
    assert words in capsys.readouterr().out


def test_where_nothing_is_planted_length_is_told() -> None:
    told = {**SUMMARY["swarm"], "attack_success": None}
    (line,) = swarm_remarks({"swarm": told})
    assert line.endswith("mean length 21.0 (20.0 without liars).") and "attack success" not in line
    assert swarm_remarks({}) == swarm_remarks({"swarm": {}}) == []
