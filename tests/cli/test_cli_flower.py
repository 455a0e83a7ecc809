"""`hanse keys`, `serve`, `join`: mistakes are one paragraph with an exit code, before anything is begun."""

from __future__ import annotations

import socket
import stat

import pytest
from typer.testing import CliRunner

from hanse.cli import app
from hanse.recipe.load import dump_recipe, load_recipe
from tests.runtime.flower.world import flower_recipe


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def told(result) -> str:
    """What it says on stderr, in one line."""
    assert "Traceback" not in result.stderr
    return " ".join(result.stderr.split())


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(dump_recipe(flower_recipe()))
    return path


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    assert run("keys", folder, "--host", "localhost", "--client", "level-1").exit_code == 0
    return folder


def test_keys_says_what_to_give_to_whom(keys):
    result = run("keys", keys, "--client", "level-2")
    assert result.exit_code == 0
    assert f"{keys}/level-2.key (private: stays here)" in " ".join(result.stdout.split())
    assert "clients/level-2.pem to the server" in result.stdout
    assert stat.S_IMODE((keys / "level-2.key").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "not said whose keys"),
        (("--client", "level-1"), "level-1.key exists already"),
        (("--host", "localhost"), "ca.pem exists already"),
        (("--client", "Level 9"), "no client's name"),
    ],
)
def test_keys_refuses(keys, words, why):
    result = run("keys", keys, *words)
    assert result.exit_code == 2
    assert why in told(result)


def test_serve_needs_a_recipe_whose_clients_join(tmp_path):
    path = tmp_path / "local.toml"
    path.write_text(dump_recipe(load_recipe({})))
    result = run("serve", path, "--insecure", "--out", tmp_path / "runs")
    assert result.exit_code == 2
    assert 'runtime.type: is "local"' in told(result)


def test_serve_and_join_want_keys_or_to_be_told_that_none_are_wanted(recipe, tmp_path):
    join = ("join", "--server", "localhost:1", "--recipe", recipe, "--client", "level-1")
    for words in (("serve", recipe, "--out", tmp_path / "runs"), join):
        result = run(*words)
        assert result.exit_code == 2
        assert "--keys: no keys are given." in told(result)
    result = run("serve", recipe, "--keys", tmp_path / "absent", "--out", tmp_path / "runs")
    assert (result.exit_code, "server.pem cannot be read" in told(result)) == (2, True)
    assert not (tmp_path / "runs").exists()


def test_serve_names_the_client_whose_key_is_missing_and_leaves_no_run(recipe, keys, tmp_path):
    result = run("serve", recipe, "--keys", keys, "--out", tmp_path / "runs", "--quiet")
    assert result.exit_code == 2
    assert "clients/level-2.pem cannot be read" in told(result)
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_port_that_is_taken_is_told(recipe, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        where = ("--host", "127.0.0.1", "--port", port, "--out", tmp_path / "runs")
        result = run("serve", recipe, "--insecure", *where, "--quiet")
    assert result.exit_code == 2
    assert f"--port: cannot listen on 127.0.0.1:{port}" in told(result)


def test_train_says_how_such_a_run_is_begun(recipe, tmp_path):
    result = run("train", recipe, "--out", tmp_path / "runs", "--quiet")
    assert result.exit_code == 6
    assert "begin such a run with `hanse serve RECIPE`" in told(result)
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    "server", ["localhost", "localhost:0", "localhost:65536", "https://localhost:1", ":1", ""]
)
def test_join_refuses_an_address_that_waiting_would_not_mend(recipe, tmp_path, server):
    words = ("--recipe", recipe, "--client", "level-1", "--insecure", "--state", tmp_path / "state")
    result = run("join", "--server", server, *words)
    assert result.exit_code == 2
    assert f"--server: {server!r} is not HOST:PORT" in told(result)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", ["ca.pem", "level-1.key"])
def test_join_refuses_keys_that_are_none_before_it_begins(recipe, keys, tmp_path, name):
    (keys / name).write_text("junk")
    words = ("--recipe", recipe, "--client", "level-1", "--keys", keys, "--state", tmp_path / "state")
    result = run("join", "--server", "localhost:1", *words)
    assert result.exit_code == 2
    assert f"--keys: {keys / name} is no" in told(result)
    assert not (tmp_path / "state").exists()
