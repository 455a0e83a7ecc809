"""What a report says of clients that were refused or had to stay away."""

from __future__ import annotations

from dataclasses import replace

from hanse.runs.report.clients import client_signals
from hanse.runs.report.data import ReportData
from hanse.runs.report.health import health
from hanse.runs.report.reading import clients
from hanse.runs.report.training import reward_chart


def data(*rounds) -> ReportData:
    return ReportData("r", "federated", "", {}, rounds, (), (), {}, [{"client": "a"}, {"client": "b"}])


def heads(page: ReportData) -> str:
    return str(client_signals(page))


def test_refusals_and_quarantine_are_counted_by_client():
    page = heads(
        data(
            {"round": 1, "clients/a/reward": 0.5, "clients/b/refused": "why"},
            {"round": 2, "clients/a/reward": 0.5, "clients/b/refused": "why"},
            {"round": 3, "clients/a/reward": 0.5, "clients/b/quarantined": 1, "clients/quarantined": 1},
        )
    )
    row = page[page.rindex(">b<") :]
    assert row.index(">2<") < row.index(">1<")
    assert "quarantined" in page


def test_columns_that_nobody_needs_are_left_out():
    page = heads(data({"round": 1, "clients/a/reward": 0.5}, {"round": 2, "clients/a/reward": 0.6}))
    assert ">refused<" not in page
    assert ">quarantined<" not in page


def test_a_reward_model_is_told_in_pairs_and_not_in_rewards():
    page = data({"round": 1, "clients/a/reward": 0.75})
    pairs = replace(page, mode="reward-model")
    told, plain = (heads(found) for found in (pairs, page))
    assert "pairs right" in told and "reward 0.750" not in told
    assert "reward 0.750" in plain and "pairs right" not in plain
    assert (reward_chart(pairs).title, reward_chart(page).title) == ("Mean pairs right", "Mean reward")


def test_judges_are_told_by_competence_and_the_server_is_none_of_them():
    rounds = [{"round": n, "clients/a/scored": 40, "clients/a/reward": 0.25} for n in (1, 2)]
    rounds[1] |= {"clients/b/refused": "late"}
    steps = [{"client": "server", "round": 1}, {"client": "a", "round": 1}]
    summary = {"reward_only": {"competence": {"a": 0.75, "b": None}}, "counters": {"refused_replies": 1}}
    page = replace(data(*rounds), mode="reward-only", steps=steps, summary=summary)
    assert clients(page) == ["a", "b"]
    assert clients(replace(page, mode="federated")) == ["a", "b", "server"]
    told = heads(page)
    row = told[told.rindex(">a<") :]
    assert row.index(">0.750<") < row.index(">80<")
    assert "Clients here score" in told and "how well a client" not in told
    found = str(health(page))
    assert "the reply of b was refused: late" in found and "1 reply of clients" in found


def test_a_client_that_did_not_answer_is_a_warning_and_a_column():
    heard, silent = {"clients/a/reward": 0.5}, {"clients/b/silent": 1}
    page = data({"round": 0}, *({"round": n, **heard, **(silent if n < 3 else {})} for n in range(1, 5)))
    page = replace(page, summary={"warnings": []})
    told = str(health(page))
    assert "Warning: client b gave no answer in 2 of 4 rounds: it was away" in told
    assert "client a gave" not in told and "No warnings." not in told
    assert ">no answer<" in heads(page)


def test_where_everybody_answered_there_is_no_warning():
    page = replace(data({"round": 1, "clients/a/reward": 0.5}), summary={"warnings": []})
    assert "No warnings." in str(health(page))
    assert ">no answer<" not in heads(page)


def test_of_many_silent_clients_those_that_were_silent_most_are_named():
    rounds = [{"round": n} | {f"clients/c{k}/silent": 1 for k in range(12) if k >= 12 - n} for n in range(13)]
    told = str(health(data(*rounds)))
    assert "client c11 gave no answer in 12 of 12 rounds" in told
    assert "client c2 gave no answer in 3 of" in told
    assert "client c1 gave" not in told and "2 more clients gave no answer at times." in told
