"""From bytes to completions in their places."""

from __future__ import annotations

import pytest
import torch

from hanse.policy.tiny import tiny_policy
from hanse.recipe.model import TinyPolicy
from hanse.swarm.collect import Written, choices, make_grid, open_bundles, place
from hanse.swarm.delivery import Bundle, Delivery, Limits, Text, Tokens
from hanse.tasks.arithmetic import VOCABULARY
from tests.swarm.made import END, owners, sent

POLICY = tiny_policy(TinyPolicy(hidden=8, layers=1, heads=1, intermediate=8), VOCABULARY, 0)
LIMITS = Limits(deliveries=2, tokens=8, vocabulary=POLICY.vocabulary)


def placed(*deliveries: Delivery, kind=Tokens) -> tuple[list[Written], dict[int, str]]:
    bundles: dict[int, Bundle] = {}
    for d in deliveries:
        before = bundles[d.node].deliveries if d.node in bundles else ()
        bundles[d.node] = Bundle(1, d.node, (*before, d))
    return place(bundles, owners(), POLICY, 8, kind)


def test_deliveries_come_in_order_of_the_assignment():
    written, strange = placed(sent(1, 3), sent(0, 1), sent(1, 2), sent(0, 0))
    assert [(w.slot, w.ids, w.stopped) for w in written] == [(s, (5, 6, END), True) for s in range(4)]
    assert strange == {}


def test_slots_of_others_and_second_deliveries_are_strange():
    written, strange = placed(sent(0, 0), sent(0, 0, (7, END)), sent(1, 1))
    assert [(w.slot, w.ids) for w in written] == [(0, (5, 6, END))]
    assert set(strange) == {0, 1}


def test_unknown_problems_are_strange():
    assert placed(sent(0, 0, problem="q"))[0] == []


def test_an_end_that_is_not_what_it_says_is_strange():
    written, strange = placed(sent(0, 0, (5, 6), finish="stop"), sent(1, 2, (5, END), finish="length"))
    assert written == []
    assert set(strange.values()) == {"an end that is not what it says"}


def test_what_travels_is_of_one_kind():
    assert placed(sent(0, 0, text="12"))[0] == []
    assert "text" in placed(sent(0, 0), kind=Text)[1][0]


def test_text_is_encoded_with_the_receivers_tokenizer():
    (written,), _ = placed(sent(0, 0, text="12"), kind=Text)
    assert written.ids == (*POLICY.encode("12"), END)
    cut = sent(0, 0, (5,), text="1" * 8)
    assert placed(cut, kind=Text)[0][0].stopped is False
    assert placed(sent(0, 0, text=""), kind=Text)[0][0].ids == (END,)
    assert placed(sent(0, 0, (5,), text=""), kind=Text)[0] == []


def test_text_that_is_longer_here_than_there_is_cut_and_no_offence():
    (written,), strange = placed(sent(0, 0, text="1" * 8), kind=Text)
    assert len(written.ids) == 8 and not written.stopped and strange == {}


@pytest.mark.parametrize("text", ["1<eos>2", "1<pad>2", "1 unknown", "12<eos>"])
def test_text_with_tokens_that_its_readers_would_not_see_is_refused(text):
    """Decoded, all of these are clean: a judge would accept what the model is then taught."""
    written, strange = placed(sent(0, 0, text=text), kind=Text)
    assert written == [] and "special" in strange[0]


def test_bundles_of_other_rounds_and_nodes_are_refused():
    good = Bundle(4, 0, (sent(0, 0),)).to_bytes()
    said = {0: good, 1: good, 2: b"nothing", 3: Bundle(5, 3, ()).to_bytes()}
    bundles, refused = open_bundles(said, 4, LIMITS)
    assert list(bundles) == [0]
    assert set(refused) == {1, 2, 3}
    assert list(open_bundles(said, None, LIMITS)[0]) == [0, 3]


def test_nodes_choose_among_known_problems_and_not_too_many():
    bundle = Bundle(1, 0, tuple(sent(0, 0, problem=p) for p in ("b", "x", "a", "b", "c")))
    assert choices({0: bundle}, {"a": 1, "b": 1, "c": 1}, 2) == {0: ["b", "a"]}


def test_a_grid_puts_completions_into_their_places_and_back():
    written = [Written("q", 1, (5, 6, END), True), Written("p", 0, (7,), False)]
    grid = make_grid(written, ["p", "q"], 2, pad=0)
    assert grid.tokens_PST.tolist() == [[[7, 0, 0], [0, 0, 0]], [[0, 0, 0], [5, 6, END]]]
    assert grid.lengths_PS.tolist() == [[1, 1], [1, 3]]
    assert grid.stopped_PS.tolist() == [[False, False], [False, True]]
    assert grid.rows(grid.lengths_PS).tolist() == [3, 1]
    assert grid.spread(torch.tensor([1.0, 2.0]), -1.0).tolist() == [[2.0, -1.0], [-1.0, 1.0]]


def test_a_grid_without_completions_is_all_padding():
    grid = make_grid([], ["p"], 2, pad=0)
    assert grid.tokens_PST.shape == (1, 2, 1)
    assert grid.spread(torch.tensor([]), 3.0).tolist() == [[3.0, 3.0]]
