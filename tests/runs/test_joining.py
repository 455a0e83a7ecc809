"""Clients with problems of their own: a server that has none of them, and what each end refuses."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.clientapp import ClientApp

from hanse.errors import RecipeError, RunError, UnreachableError
from hanse.recipe.load import load_recipe
from hanse.runs.joining import Membership, _always, _locked, _node, client_names, join_run
from hanse.runtime.flower.client_app import client_app
from hanse.runtime.flower.joining import Joined
from hanse.runtime.flower.keys import KeyFolder, make_client_key, make_server_keys
from policy.random_models import write_model
from tests.runtime.flower.world import World

NAMES = ["north", "south"]


def rows(path, *prompts):
    path.write_text("".join(json.dumps({"prompt": p, "answer": "1"}) + "\n" for p in prompts))
    return path


@pytest.fixture
def recipe(tmp_path):
    write_model(tmp_path / "model", "llama")
    rows(tmp_path / "public.jsonl", "what is 1 + 0", "and 0 + 1")
    return load_recipe(
        {
            "name": "own",
            "rounds": 2,
            "policy": {"type": "hf", "path": str(tmp_path / "model"), "train": "full", "dtype": "float32"},
            "task": {
                "type": "jsonl",
                "path": str(tmp_path / "nowhere.jsonl"),
                "held_out_path": str(tmp_path / "public.jsonl"),
            },
            "partition": {"by": "own", "clients": 2, "names": NAMES},
            "grpo": {"group_size": 2, "prompts_per_step": 2, "local_steps": 1, "max_new_tokens": 4},
            "evaluation": {"problems_per_level": 2, "samples": 1, "final_problems_per_level": 2},
            "runtime": {"type": "flower", "quorum": 2, "deadline_s": 30.0},
        }
    )


def member(recipe, tmp_path, client="north", **more) -> Membership:
    given = {"server": "localhost:1", "data": None, "keys": None, "folder": tmp_path / "nodes" / client}
    return Membership(recipe, client=client, **(given | more))


class OwnWorld(World):
    """Each client's node is built as `hanse join` builds it."""

    def apps(self, setting):
        made = []
        for index, name in enumerate(NAMES):
            data = str(rows(self.folder / f"{name}.jsonl", *(f"{name} asks {i}" for i in range(3 + index))))
            node = _node(member(setting.recipe, self.folder, name, data=data), index)
            made.append((index, node))
        self.nodes = [node for _, node in made]
        self.node = self.nodes[0]
        return [
            client_app(lambda n=node: n, lambda context, i=index: _always(i, context)) for index, node in made
        ]


def test_a_server_needs_no_training_problem(recipe, tmp_path):
    (tmp_path / "clients").mkdir()
    world = OwnWorld(tmp_path / "clients")
    run = world.train(recipe, tmp_path / "runs")
    world.nodes[1].close()
    assert run.summary["rounds"] == 2
    samples = [world.nodes[k]._host.clients[k].problems for k in (0, 1)]
    assert [[p.prompt for p in own] for own in samples] == [
        [f"north asks {i}" for i in range(3)],
        [f"south asks {i}" for i in range(4)],
    ]
    assert run.summary["evaluation"]["final"]["accuracy"] is not None
    written = b"".join(path.read_bytes() for path in run.folder.rglob("*") if path.is_file())
    assert b"north asks" not in written and b"south asks" not in written
    assert b"what is 1 + 0" in written


def test_names_come_from_the_recipe(recipe):
    assert client_names(recipe) == NAMES


@pytest.mark.parametrize(
    ("changes", "field", "why"),
    [
        ({"client": "west"}, "--client", "none of the recipe's clients: north, south"),
        ({}, "--data", "leaves them to each client"),
        ({"data": "/nowhere.jsonl"}, "--data", "does not exist"),
        ({"data": "empty"}, "--data", "no problem in it"),
        ({"keys": "absent", "data": "good"}, "--keys", "cannot be read"),
    ],
)
def test_mistakes_are_told_before_anybody_waits(recipe, tmp_path, changes, field, why):
    files = {"empty": rows(tmp_path / "empty.jsonl"), "good": rows(tmp_path / "good.jsonl", "a", "b")}
    given = {k: str(files.get(v, v)) if k == "data" else v for k, v in changes.items()}
    if "keys" in given:
        given["keys"] = tmp_path / given["keys"]
    with pytest.raises(RecipeError, match=why) as caught:
        join_run(member(recipe, tmp_path, **given), lambda text: None)
    assert caught.value.field == field


def test_a_local_recipe_is_not_joined(tmp_path):
    with pytest.raises(RecipeError, match='clients join runs of type "flower"'):
        join_run(member(load_recipe({}), tmp_path), lambda text: None)


def test_a_clients_memory_has_one_owner(tmp_path):
    with _locked(tmp_path / "n"), pytest.raises(RunError, match="in use by another"), _locked(tmp_path / "n"):
        pass


def test_a_server_that_is_gone_is_given_up(recipe, tmp_path):
    keys = KeyFolder(tmp_path / "keys")
    make_server_keys(keys, ["localhost"])
    make_client_key(keys, "north")
    data = str(rows(tmp_path / "n.jsonl", "a", "b"))
    joining = member(recipe, tmp_path, keys=keys.path, data=data, patience_s=0.5)
    with pytest.raises(UnreachableError, match="localhost:1 does not answer") as caught:
        join_run(joining, lambda text: None)
    assert caught.value.exit_code == 7


def test_a_client_that_is_turned_away_ends_with_the_servers_reason():
    joined = Joined("localhost:1", None, ec.generate_private_key(ec.SECP256R1()), 0, 1, 0.0, print)
    joined.end("its recipe differs from the server's in grpo")
    with pytest.raises(UnreachableError, match=r"turned this client away: its recipe differs .* in grpo\."):
        joined.run(ClientApp())
    joined.end("")
    joined.run(ClientApp())  # the run is over: no error
