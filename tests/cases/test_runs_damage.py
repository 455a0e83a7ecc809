"""R4, R5: files of a run that were damaged or edited: told in a paragraph, or mended with the same bits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

import hanse
from hanse.cli import app
from hanse.errors import RunError
from hanse.runs.progress import SilentProgress
from tests.end_to_end.small import StopAfter, small_recipe, without_times

LORA = ("policy.train=lora", "grpo.lr=1e-2")


class Heard(SilentProgress):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HANSE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def reference(tmp_path_factory, cache):
    return hanse.train(small_recipe(*LORA), out=tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="module")
def half(tmp_path_factory, cache):
    out = tmp_path_factory.mktemp("half")
    with pytest.raises(KeyboardInterrupt):
        hanse.train(small_recipe(*LORA), out=out, progress=StopAfter(2))
    (folder,) = out.iterdir()
    return folder


@pytest.fixture
def stopped(half, tmp_path):
    """A run stopped after round 2 of 3."""
    return Path(shutil.copytree(half, tmp_path / "run"))


@pytest.fixture
def finished(reference, tmp_path):
    return Path(shutil.copytree(reference.folder, tmp_path / "run"))


def damage(path: Path) -> None:
    """Half of the bits of one byte in the middle are turned over."""
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 4] ^= 0x55
    path.write_bytes(content)


def hanse_cli(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


# --- an edited recipe ---------------------------------------------------------------------------------


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "recipe.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("lr = 0.01", "lr = 0.02", "grpo.lr was 0.01"),
        ("threads = 1", "threads = 2", "runtime.threads was 1"),
        ("seed = 0", "seed = 1", "seed was 0"),
        ("hidden = 16", "hidden = 32", "policy.hidden was 16"),
        ('name = "exact"', 'name = "math"', "rewards.1.name was 'exact'"),
    ],
)
def test_an_edited_recipe_is_refused_by_the_field_that_differs(stopped, old, new, field):
    edit(stopped, old, new)
    code, output = hanse_cli("resume", stopped)
    assert code == 6
    assert field in output and "recipe.toml was changed" in output


def test_an_emptied_recipe_is_refused(stopped):
    (stopped / "recipe.toml").write_text("")
    assert hanse_cli("resume", stopped)[0] == 6


def test_where_a_run_ends_and_what_it_takes_may_be_edited(stopped, reference):
    edit(stopped, "workers = 1", "workers = 2")
    edit(stopped, "rounds = 3", "rounds = 4")
    edit(stopped, "[evaluation]", "[evaluation]\nstop_at = 1.0")
    summary = hanse.resume(stopped).summary
    assert summary["rounds"] == 4
    rows = [row for row in without_times(hanse.Run(stopped, summary).metrics("step")) if row["round"] == 3]
    assert rows == [row for row in without_times(reference.metrics("step")) if row["round"] == 3]


def test_a_finished_run_goes_on_to_more_rounds_and_says_when_there_are_none(finished, tmp_path):
    code, output = hanse_cli("resume", finished)
    assert code == 0 and "Already finished; to go on, raise `rounds`" in output
    edit(finished, "rounds = 3", "rounds = 4")
    code, output = hanse_cli("resume", finished)
    assert code == 0 and "Already finished" not in output
    whole = hanse.train(small_recipe(*LORA, rounds=4), out=tmp_path / "whole")
    summary = json.loads((finished / "summary.json").read_text())
    assert summary["rounds"] == 4 and summary["policy_sha256"] == whole.summary["policy_sha256"]
    assert without_times(hanse.Run(finished, summary).metrics()) == without_times(whole.metrics())
    name = "adapter_model.safetensors"
    assert (finished / "policy" / name).read_bytes() == (whole.policy / name).read_bytes()
    completions = "completions.jsonl"
    assert (finished / completions).read_bytes() == (whole.folder / completions).read_bytes()


def test_rounds_may_not_change_where_the_learning_rate_depends_on_them(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hanse.train(small_recipe("grpo.schedule=linear"), out=tmp_path, progress=StopAfter(1))
    (folder,) = tmp_path.iterdir()
    edit(folder, "rounds = 3", "rounds = 4")
    with pytest.raises(RunError, match="rounds was 3"):
        hanse.resume(folder)


# --- damaged files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["resume", "report", "eval", "export"])
@pytest.mark.parametrize("content", [b"[grpo\n", b"\xff\xfe\x00", b"rounds = 'x'\n"])
def test_a_damaged_recipe_is_one_paragraph(finished, verb, content):
    (finished / "recipe.toml").write_bytes(content)
    (finished / "summary.json").unlink()
    code, output = hanse_cli(verb, finished)
    assert code in (2, 6) or verb == "export"
    assert "recipe.toml" in output or "rounds" in output or verb == "export"


@pytest.mark.parametrize("verb", ["resume", "report"])
@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe"])
def test_a_damaged_summary_is_one_paragraph_and_can_be_made_again(finished, reference, verb, content):
    (finished / "summary.json").write_bytes(content)
    code, output = hanse_cli(verb, finished)
    assert code == 6
    assert "summary.json is damaged" in output and "Delete it" in output
    if verb == "resume" and content == b"{":
        (finished / "summary.json").unlink()
        assert hanse.resume(finished).summary["policy_sha256"] == reference.summary["policy_sha256"]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b'{"rounds": 3}'])
def test_a_damaged_ledger_stops_the_report_of_an_unfinished_run(stopped, content):
    (stopped / "rounds" / "000002" / "ledger.json").write_bytes(content)
    code, output = hanse_cli("report", stopped)
    assert code == 6
    assert "000002/ledger.json is damaged" in output


@pytest.mark.parametrize("name", ["metrics.jsonl", "completions.jsonl", "environment.json", "partition.json"])
def test_other_damaged_records_stop_the_report(finished, name):
    (finished / name).write_bytes(b"\xff[\n" + (finished / name).read_bytes())
    code, output = hanse_cli("report", finished)
    assert code == 6
    assert name in output and "is damaged" in output


@pytest.mark.parametrize(
    "name", ["ledger.json", "server-0000.safetensors", "client-0001.safetensors", "SHA256SUMS"]
)
@pytest.mark.parametrize("how", [damage, Path.unlink], ids=["damaged", "missing"])
def test_a_damaged_newest_round_gives_way_to_the_one_before(stopped, reference, name, how):
    how(stopped / "rounds" / "000002" / name)
    heard = Heard()
    run = hanse.resume(stopped, heard)
    assert run.summary["policy_sha256"] == reference.summary["policy_sha256"]
    assert without_times(run.metrics()) == without_times(reference.metrics())
    (warning,) = heard.warnings
    assert "000002 is damaged" in warning and name in warning and "Round 1 is used instead" in warning
    assert warning in run.summary["warnings"] and "000002 is damaged" in (stopped / "report.html").read_text()


def test_no_sound_round_is_one_paragraph(stopped):
    for folder in (stopped / "rounds").iterdir():
        damage(folder / "server-0000.safetensors")
    for verb in ("resume", "eval"):
        code, output = hanse_cli(verb, stopped)
        assert code == 6
        assert "000001 is damaged" in output and "No older round is kept" in output
    assert len(list((stopped / "rounds").iterdir())) == 2


def test_eval_falls_back_too_and_changes_nothing(stopped):
    damage(stopped / "rounds" / "000002" / "server-0000.safetensors")
    code, output = hanse_cli("eval", stopped)
    assert code == 0
    assert "000002 is damaged" in output and "Round 1 is used instead" in output
    assert "Held-out accuracy after round 1, run not finished" in output
    assert (stopped / "rounds" / "000002").is_dir()


@pytest.mark.parametrize("how", [damage, Path.unlink], ids=["damaged", "missing"])
@pytest.mark.parametrize("cached", [True, False])
def test_a_damaged_start_is_made_again(stopped, reference, how, cached, tmp_path, monkeypatch):
    if not cached:
        monkeypatch.setenv("HANSE_CACHE", str(tmp_path / "empty"))
    how(stopped / "start.safetensors")
    assert hanse_cli("eval", stopped)[0] == 0
    assert hanse.resume(stopped).summary["policy_sha256"] == reference.summary["policy_sha256"]
    assert (stopped / "start.safetensors").read_bytes() == (
        reference.folder / "start.safetensors"
    ).read_bytes()


def test_a_start_that_cannot_be_made_again_is_one_paragraph(stopped, monkeypatch, tmp_path):
    monkeypatch.setenv("HANSE_CACHE", str(tmp_path / "empty"))
    monkeypatch.setattr("hanse.runs.start.warm_up", lambda *arguments: None)
    damage(stopped / "start.safetensors")
    for verb in ("resume", "eval"):
        code, output = hanse_cli(verb, stopped)
        assert code == 6
        assert "start.safetensors was missing or damaged" in output


def test_a_damaged_cache_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("HANSE_CACHE", str(tmp_path / "cache"))
    first = hanse.train(small_recipe(rounds=1), out=tmp_path)
    (cached,) = (tmp_path / "cache").iterdir()
    cached.write_bytes(cached.read_bytes()[:100])
    second = hanse.train(small_recipe(rounds=1), out=tmp_path)
    assert first.summary["policy_sha256"] == second.summary["policy_sha256"]


# --- the best round -----------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def other(path: Path) -> None:
    save_file(
        {"0000": load_file(path)["0000"][:3].clone()}, path, metadata={"hanse": json.dumps({"round": 0})}
    )


@pytest.mark.parametrize("how", [cut, Path.unlink, other])
def test_without_the_best_values_the_last_ones_are_exported_with_a_warning(finished, reference, how):
    how(finished / "best.safetensors")
    (finished / "summary.json").unlink()
    heard = Heard()
    run = hanse.resume(finished, heard)
    assert run.summary["policy_sha256"] == reference.summary["policy_sha256"]
    assert any("best.safetensors" in text and "policy-best is the last" in text for text in heard.warnings)
    assert heard.warnings == run.summary["warnings"][-len(heard.warnings) :]
    for name in ("adapter_model.safetensors",):
        assert (finished / "policy-best" / name).read_bytes() == (finished / "policy" / name).read_bytes()


# --- export -------------------------------------------------------------------------------------------


def test_a_lost_policy_is_made_again_by_resume(finished, reference):
    shutil.rmtree(finished / "policy")
    code, output = hanse_cli("export", finished)
    assert code == 6 and "hanse resume" in output
    assert hanse.resume(finished).summary["policy_sha256"] == reference.summary["policy_sha256"]
    assert hanse_cli("export", finished)[0] == 0


@pytest.mark.parametrize("name", ["adapter_config.json", "hanse.json", "adapter_model.safetensors"])
def test_a_damaged_policy_is_one_paragraph(finished, name):
    (finished / "policy" / name).write_bytes(b"{")
    code, output = hanse_cli("export", finished, "--merge")
    assert code == 6, output
    if name == "adapter_config.json":
        assert hanse_cli("export", finished)[0] == 6


def test_export_to_where_nothing_can_be_written(finished, tmp_path):
    (tmp_path / "file").write_text("")
    code, output = hanse_cli("export", finished, "--out", tmp_path / "file" / "out")
    assert code == 6 and "cannot be copied" in output
