"""What a report says of clients that were refused or had to stay away."""

from __future__ import annotations

from hanse.runs.report.clients import client_signals
from hanse.runs.report.data import ReportData


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
