"""Clients that bring their own problems: nobody counts what it has not seen."""

from __future__ import annotations

from hanse.recipe.load import load_recipe
from hanse.runs.evaluating import Levels
from hanse.runs.model_card import model_card
from hanse.runs.report.data import ReportData
from hanse.runs.report.setup import partition
from hanse.tasks.partition import ClientData
from hanse.tasks.problem import Problem

PARTS = [ClientData("north", ()), ClientData("<b>south", ())]


def rows(parts=PARTS):
    return Levels.of(lambda split: {"1": []}, parts, "level").partition_rows()


def test_a_number_of_problems_that_the_server_does_not_know_is_left_out():
    assert rows() == [{"client": "north"}, {"client": "<b>south"}]
    known = [ClientData("north", (Problem("p", "q", "1", {"level": 1}),))]
    assert rows(known) == [{"1": 1, "client": "north", "problems": 1}]


def test_report_and_model_card_say_that_clients_kept_their_problems():
    page = str(partition(ReportData("r", "federated", "", {}, (), (), (), {}, rows())))
    assert "Each client brought its own problems and kept them: north, &lt;b&gt;south." in page
    assert "<table" not in page
    card = model_card(load_recipe({}), {}, rows())
    assert "Each client brought its own and kept them: north, \\<b\\>south." in card
    assert "| north |" not in card
