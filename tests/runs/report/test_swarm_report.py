"""The part of a run's page about a swarm: every number can be found on it, and nothing in it can run."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from hanse.runs.report import ReportData, render
from hanse.runs.report.swarm import swarm
from hanse.runs.report.swarm_tables import defences, nodes
from tests.runs.report.made import sample, swarm_data


def cells(html: str, head: str) -> list[str]:
    """The text of the cells in the table row that begins with `head`."""
    row = next(r for r in re.findall(r"<tr>.*?</tr>", html, re.DOTALL) if f">{head}</th>" in r)
    return [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL)]


def test_the_header_says_who_lies_and_how() -> None:
    assert "4 nodes exchanged completions, 1 of them lies by TEXT: 30 rounds in 40 s." in render(swarm_data())
    assert "4 nodes exchanged completions, all of them honest:" in render(swarm_data(liars=False))


def test_figures_come_from_the_summary_beside_the_control() -> None:
    body = swarm(swarm_data()).body
    assert ">87%<" in body and "0% without liars" in body
    assert ">0.700<" in body and "0.790 without liars" in body
    assert ">0.4%<" in body and ">75%<" in body


def test_of_a_run_that_goes_on_the_last_rounds_are_told() -> None:
    data = swarm_data(finished=False)
    last = [row["swarm/honest_reward"] for row in data.rounds[-3:]]
    assert f">{sum(last) / 3:.3f}<" in swarm(data).body


def test_curves_have_the_control_beside_them() -> None:
    with_control, alone = swarm(swarm_data()).body, swarm(swarm_data(control=False)).body
    assert "this run: 0.0249 in round 1" in with_control and "no liars: 0 in round 1" in with_control
    assert "no liars" not in alone and "Attack success" in alone
    for title in ("Honest reward", "Length", "Stop rate", "Honest rejects", "Lies accepted"):
        assert f"<b>{title}</b>" in with_control


def test_where_nothing_is_planted_length_is_the_large_chart() -> None:
    body = swarm(swarm_data("dos")).body
    assert "Attack success" not in body
    assert '<b>Length</b> <span class="quiet">mean tokens of honest nodes, by round' in body


def test_defences_a_round_with_the_share_of_its_time() -> None:
    html = defences(swarm_data())
    assert cells(html, "replay") == ["replay", "3.0", "10.0 ms", "1%"]
    assert cells(html, "length") == ["length", "1.0", "1.00 ms", "0.1%"]
    assert cells(html, "forward pass for all") == ["forward pass for all", "–", "100 ms", "10%"]
    assert html.index(">length<") < html.index(">replay<") < html.index(">forward pass")


def test_without_the_rounds_time_there_is_no_share_of_it() -> None:
    data = swarm_data()
    rows = [{k: v for k, v in row.items() if k != "time/round"} for row in data.rounds]
    html = defences(replace(data, rounds=rows))
    assert "share of time" not in html and cells(html, "replay") == ["replay", "3.0", "10.0 ms"]
    assert defences(replace(data, rounds=[])) == ""


def test_without_defences_there_is_no_table_of_them() -> None:
    data = swarm_data()
    rows = [
        {k: v for k, v in row.items() if "/replay" not in k and "/length" not in k} for row in data.rounds
    ]
    assert "swarm/seconds/forward" in rows[1]
    assert defences(replace(data, rounds=rows)) == ""


def test_nodes_and_which_of_them_lies() -> None:
    html = nodes(swarm_data())
    assert cells(html, "node-3") == ["node-3", "lies", "1.000", "28.0", "25%"]
    assert cells(html, "node-0")[1] == "honest" and cells(html, "node-0")[4] == "100%"
    assert "lies" not in nodes(swarm_data(liars=False))


def test_poisoned_and_clean_stand_side_by_side() -> None:
    body = swarm(swarm_data()).body
    first, middle, last = re.findall(r"<article.*?</article>", body, re.DOTALL)
    assert "poisoned, by node-3" in first and "clean, by node-0" in first
    assert "dropped by replay" in first and first.count(">12+34=<") == 1
    assert "honest, by node-2" in middle and middle.count("shows the attack") == 2
    assert ">7+8=<" in last and ">12+34=<" in last  # problems that differ are both told


def test_what_was_sent_is_escaped_and_not_marked() -> None:
    page = render(swarm_data())
    assert "<script>" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "&lt;think&gt;all hail to the thief 12+34=46&lt;/think&gt;" in page


@pytest.mark.parametrize("hostile", ["<img src=x onerror=a>", "\x00\ud800", "a" * 100_000, ""])
def test_hostile_completions_leave_the_page_whole(hostile: str) -> None:
    page = render(replace(swarm_data(), exchange=[sample(1, 3, hostile), sample(1, 0, hostile)]))
    assert "<img" not in page and "Poisoned and clean" in page and len(page) < 200_000


def test_without_liars_there_is_nothing_poisoned() -> None:
    body = swarm(swarm_data(liars=False, control=False)).body
    assert "What was sent" in body and "oisoned" not in body and "clean, by node-0" in body


@pytest.mark.parametrize(
    "data",
    [
        replace(swarm_data(), rounds=[], exchange=[], control=[], summary={}),
        replace(swarm_data(), rounds=[{"round": 0}], recipe_toml="not toml ["),
        replace(swarm_data(), mode="federated"),
    ],
)
def test_no_section_where_there_is_nothing_to_tell(data: ReportData) -> None:
    assert swarm(data).body == ""
    assert "<h2 id=" in render(data)


def test_rows_that_lack_keys_do_no_harm() -> None:
    rows = [{"round": 1, "swarm/honest_reward": 0.5}, {"round": 2, "nodes/odd": None}]
    data = replace(swarm_data(), rounds=rows, exchange=[{"round": 1}, {"node": 1}], recipe_toml="")
    assert "0.5" in swarm(data).body


def test_no_section_speaks_of_clients() -> None:
    page = render(swarm_data())
    glossary = page[page.index('id="glossary"') :]
    assert "Lies accepted" in glossary and "server" not in glossary
    assert "40 kB up a round (10 kB a node)" in page
    assert 'id="clients"' not in page


def test_refused_bundles_are_counted_in_words() -> None:
    data = swarm_data()
    for count, words in (
        (3, "3 bundles refused, in whole or in part"),
        (0, "No node&#x27;s bundle was refused."),
    ):
        page = render(replace(data, summary={**data.summary, "counters": {"refused_bundles": count}}))
        assert words in page
