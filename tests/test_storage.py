"""Files and folders that are whole or absent."""

from __future__ import annotations

import pytest

import hanse
from hanse import storage
from hanse.storage import CHECKSUMS, find_damage, new_file, write_checksums
from tests.end_to_end.small import small_recipe


def test_a_new_file_replaces_the_old_one_only_when_it_is_complete(tmp_path):
    target = tmp_path / "a"
    target.write_text("old")
    with pytest.raises(ZeroDivisionError), new_file(target) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert (target.read_text(), list(tmp_path.iterdir())) == ("old", [target])
    with new_file(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert (target.read_text(), list(tmp_path.iterdir())) == ("new", [target])


def test_start_and_best_values_are_synced_before_they_get_their_names(tmp_path, monkeypatch):
    monkeypatch.setenv("HANSE_CACHE", str(tmp_path / "cache"))
    synced, sync = [], storage.sync

    def recorded(path):
        synced.append(path.name)
        sync(path)

    monkeypatch.setattr(storage, "sync", recorded)
    hanse.train(small_recipe(rounds=1), out=tmp_path)
    for name in ("start.safetensors", "best.safetensors"):
        assert [path for path in synced if path.startswith(f".{name}") and path.endswith(".tmp")]


def test_damage_is_found_and_named(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    assert CHECKSUMS in (find_damage(tmp_path) or "")
    write_checksums(tmp_path)
    assert find_damage(tmp_path) is None
    (tmp_path / "b").write_text("c")
    assert find_damage(tmp_path) == "b does not match SHA256SUMS"
    (tmp_path / "b").unlink()
    assert find_damage(tmp_path) == "b is missing"
    for content in (b"", b"\xff", b"abc\n"):
        (tmp_path / CHECKSUMS).write_bytes(content)
        assert CHECKSUMS in (find_damage(tmp_path) or "")
