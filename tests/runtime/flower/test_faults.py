"""Field cases F-6, F-7, F-9 over a grid: late, absent, restarted, hostile clients, a restored server."""

from __future__ import annotations

import json
import shutil

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

import hanse
from hanse.errors import EXIT_QUORUM, QuorumError
from hanse.runtime.flower.agreement import differing, terms
from hanse.runtime.flower.envelope import EXCHANGE, Answer, answered, introduce, read_farewell
from hanse.runtime.flower.local_grid import LocalGrid
from hanse.runtime.flower.roster import Roster
from tests.end_to_end.small import StopAfter, small_recipe, without_times
from tests.runtime.flower.world import World, flower_recipe

FIRST, SECOND = 1001, 1002


def is_exchange(message: Message, number: int, node: int = SECOND) -> bool:
    """Whether it belongs to the `number`-th exchange with a node."""
    metadata = message.metadata
    told = (metadata.message_type, metadata.dst_node_id, metadata.group_id)
    return told == (EXCHANGE, node, str(number))


def holding(number: int, until: float):
    """The second node's message of one exchange arrives late."""

    def disturb(grid, hands):
        grid.held = lambda message: is_exchange(message, number) and hands.time < until

    return disturb


def test_f7_a_slow_client_misses_its_round_and_is_back_in_the_next(tmp_path):
    world = World(tmp_path / "nodes", holding(1, until=32))
    run = world.train(flower_recipe(runtime={"quorum": 1}), tmp_path)
    first, *later = run.metrics("round")[1:]
    assert "clients/level-2/weight" not in first
    assert all("clients/level-2/weight" in row for row in later)
    assert run.summary["counters"]["late_replies"] == 1
    assert world.hands.time == pytest.approx(32, abs=2)


def test_f6_too_few_clients_end_the_run_with_their_names(tmp_path):
    world = World(tmp_path / "nodes", lambda grid, hands: grid.away.add(SECOND))
    with pytest.raises(QuorumError, match=r"1 of 2 clients came.*Missing: level-2") as caught:
        world.train(flower_recipe(), tmp_path)
    assert caught.value.exit_code == EXIT_QUORUM
    assert world.hands.time == 30
    assert "Waiting for 1 of 2 clients: level-2." in world.said


def test_f6_a_missing_client_holds_nobody_up_where_the_quorum_allows(tmp_path):
    def disturb(grid, hands):
        grid.away.add(SECOND)
        hands.then[30] = grid.away.clear

    world = World(tmp_path / "nodes", disturb)
    run = world.train(flower_recipe(runtime={"quorum": 1}), tmp_path)
    assert "clients/level-2/weight" in run.metrics("round")[-1]
    assert world.hands.time < 32


def test_a_client_that_leaves_is_not_waited_for_and_one_that_returns_takes_part(tmp_path):
    def disturb(grid, hands):
        def leaves(message):
            if is_exchange(message, 2, FIRST):
                grid.away.add(SECOND)
            if is_exchange(message, 3, FIRST):
                grid.away.clear()
            return is_exchange(message, 2) and SECOND in grid.away

        grid.held = leaves

    world = World(tmp_path / "nodes", disturb)
    run = world.train(flower_recipe(runtime={"quorum": 1}, rounds=4), tmp_path)
    there = ["clients/level-2/weight" in row for row in run.metrics("round")[1:]]
    assert there[0] and not there[1] and there[3]
    silent = ["clients/level-2/silent" in row for row in run.metrics("round")[1:]]
    assert silent == [not here for here in there]
    assert not any("clients/level-1/silent" in row for row in run.metrics("round"))
    assert world.hands.time < 10
    assert "level-2 is away." in world.said


def test_a_client_restarted_in_mid_round_is_asked_again_and_nothing_differs(tmp_path):
    local = hanse.train(small_recipe(), out=tmp_path)

    def disturb(grid, hands):
        grid.held = lambda message: is_exchange(message, 2) and hands.time < 5
        hands.then[3] = lambda: grid.restart(SECOND)

    world = World(tmp_path / "nodes", disturb)
    run = world.train(flower_recipe(), tmp_path)
    assert world.hands.time >= 5
    assert run.summary["policy_sha256"] == local.summary["policy_sha256"]
    assert run.metrics("round")[2]["clients/level-2/weight"] > 0


def test_a_server_restored_one_round_back_gets_the_same_answers(tmp_path):
    whole = World(tmp_path / "whole").train(flower_recipe(), tmp_path)
    world, run = World(tmp_path / "nodes"), tmp_path / "small-002"
    with pytest.raises(KeyboardInterrupt):
        world.train(flower_recipe(), tmp_path, progress=StopAfter(2))
    shutil.rmtree(run / "rounds" / "000002")  # the clients are in round 2 already
    first = list(world.grid.log)
    again = world.resume(run)
    assert again.summary["policy_sha256"] == whole.summary["policy_sha256"]
    for kind in ("round", "step"):
        assert without_times(again.metrics(kind)) == without_times(whole.metrics(kind))
    assert frames(first)[-2:] == frames(world.grid.log)[:2]


def frames(log):
    return [reply.content["frame"]["frame"].data for _, reply in log if "frame" in reply.content]


def test_a_missed_quorum_is_asked_again_until_patience_ends(tmp_path):
    local = hanse.train(small_recipe(), out=tmp_path)
    world = World(tmp_path / "nodes", holding(2, until=45))
    run = world.train(flower_recipe(runtime={"patience": 2}), tmp_path)
    assert run.summary["policy_sha256"] == local.summary["policy_sha256"]
    missed = [row.get("federation/missed_quorum", 0) for row in run.metrics("round")]
    assert missed == [0, 0, 1, 0]
    steps = [(row["round"], row["client"]) for row in run.metrics("step")]
    assert steps == [(row["round"], row["client"]) for row in local.metrics("step")]
    impatient = World(tmp_path / "others", holding(2, until=1e9))
    with pytest.raises(QuorumError, match=r"round 2: 1 usable upload of 2 .*level-2: no answer in time"):
        impatient.train(flower_recipe(), tmp_path)


def test_over_selection_takes_the_first_to_answer(tmp_path):
    world = World(tmp_path / "nodes", lambda grid, hands: None)
    recipe = flower_recipe(
        runtime={"quorum": 1, "over_select": 1}, federation={"participation": 0.5}, rounds=2
    )
    run = world.train(recipe, tmp_path)
    weights = [[k for k in row if k.endswith("/weight")] for row in run.metrics("round")[1:]]
    assert [len(found) for found in weights] == [1, 1]
    assert run.summary["counters"]["late_replies"] == 2


# --- hostile nodes ----------------------------------------------------------------------------------------


def hostile(reply) -> ClientApp:
    """A node that says who it is, and answers exchanges with `reply(message)`."""
    app = ClientApp()

    @app.train("exchange")
    def _exchange(message, context):
        return Message(reply(message), reply_to=message)

    @app.query("hello")
    def _hello(message, context):
        return Message(introduce({"client": 1, "terms": hostile.terms}), reply_to=message)

    return app


def _huge(message):
    return answered(Answer(b"x" * (1 << 20)))


def _wordless(message):
    return RecordDict({"hanse": ArrayRecord({"a": Array("uint8", (1,), "x", b"x")})})


def _rows(text):
    def reply(message):
        content = answered(Answer(b"x"))
        content["hanse"] = ConfigRecord({"rows": text})
        return content

    return reply


HOSTILE = [
    (lambda message: RecordDict(), "no words of ours"),
    (_wordless, "no words of ours"),
    (lambda message: RecordDict({"hanse": ConfigRecord({"rows": "[]"})}), "no frame in it"),
    (_huge, "1048576 bytes; at most"),
    (_rows('[{"loss": NaN}]'), "metrics are not"),
    (_rows('[{"the prompt was 1+1=": 1}]'), "metrics are not"),
    (_rows("[" * 100_000), "metrics are not JSON"),
    (lambda message: answered(Answer(refused="no\x1b[31m\nreason")), "its client says: no [31m reason"),
    (lambda message: 1 / 0, "Flower error 2: ZeroDivisionError"),
]


def test_f9_what_no_honest_node_sends_is_refused_and_the_run_goes_on(tmp_path):
    """One kind a round; the last round's frame is refused by the server itself."""
    world, heard = World(tmp_path / "nodes"), Heard()
    kinds = [reply for reply, _ in HOSTILE] + [lambda message: answered(Answer(b"garbage" * 10))]

    def disturb(grid, hands):
        hostile.terms = world.node.hello(1)["terms"]
        grid.apps[SECOND] = hostile(lambda message: kinds[int(message.metadata.group_id) - 1](message))

    world.disturb = disturb
    recipe = flower_recipe("grpo.local_steps=1", runtime={"quorum": 1}, rounds=len(kinds))
    run = world.train(recipe, tmp_path, progress=heard)
    told = [text.removeprefix("level-2: ") for text in heard.warnings if text.startswith("level-2: ")]
    assert [text.startswith(why) for text, (_, why) in zip(told, HOSTILE, strict=False)] == [True] * 9, told
    assert run.summary["counters"]["failed_replies"] == len(HOSTILE)
    assert run.summary["counters"]["refused_uploads"] == 1
    assert run.metrics("round")[-1]["clients/level-2/refused"] == "not a message of this version"
    assert run.summary["rounds"] == len(kinds)


class Heard(StopAfter):
    def __init__(self):
        super().__init__(number=-1)
        self.warnings = []

    def warning(self, text):
        self.warnings.append(text)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"client": 7}, "no client of this run"),
        ({"client": "1"}, "no client of this run"),
        ({"client": 1, "terms": "{}"}, "recipe differs from the server's in mode, seed, rewards, grpo"),
        ({"client": 1}, "recipe differs"),
        ({"client": 0, "terms": terms(small_recipe())}, "its key is not that of north"),
    ],
)
def test_strangers_and_other_recipes_are_turned_away(words, why):
    app, said, told = ClientApp(), [], []

    @app.query("hello")
    def _hello(message, context):
        return Message(introduce(words), reply_to=message)

    @app.query("farewell")
    def _farewell(message, context):
        told.append(read_farewell(message.content))
        return Message(introduce({}), reply_to=message)

    grid, owners = LocalGrid([app]), {FIRST: 1} if words.get("client") in (0, 1) else None
    roster = Roster(grid, ["north", "south"], terms(small_recipe()), "0" * 32, 60.0, said.append, owners)
    for _ in range(3):
        roster.refresh()
    assert roster.missing == [0, 1]
    assert len(said) == 1 and why in said[0]
    assert len(told) == 1 and why in told[0]  # or the client would wait in vain


def test_the_sections_that_differ_are_named():
    ours = terms(small_recipe())
    assert differing(ours, terms(small_recipe(rounds=9, name="other"))) == []
    assert differing(ours, terms(small_recipe("grpo.micro_batch=2", "scoring.deadline_s=1"))) == []
    assert differing(ours, terms(small_recipe("grpo.lr=0.5", "federation.local=fedprox"))) == [
        "grpo",
        "federation",
    ]
    assert differing(ours, "[" * 5000) == differing(ours, None) == list(json.loads(ours))
