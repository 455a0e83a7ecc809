"""Private runs: what they leave behind, that a stop changes nothing, and that nothing is ever uncounted."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

import hanse
from hanse.errors import RecipeError
from hanse.recipe.load import dump_recipe
from tests.end_to_end.small import StopAfter, small_recipe, without_times
from tests.end_to_end.test_kill import rounds_done, start

pytest.importorskip("dp_accounting")
CHANGED = {
    "rewards": [{"name": "exact"}],
    "rounds": 2,
    "evaluation": {"every": 2, "problems_per_level": 2, "samples": 1},
}
SEEDED = ("privacy.enabled=true", "privacy.epsilon=4", "privacy.key=seed")
SYSTEM = ("privacy.enabled=true", "privacy.epsilon=4")


def small(*overrides: str, **changes):
    return small_recipe(*overrides, **{**CHANGED, **changes})


def accounts(folder) -> list[list[dict]]:
    return [
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in sorted((folder / "private").glob("*.jsonl"))
    ]


@pytest.fixture(scope="module")
def seeded(tmp_path_factory):
    return hanse.train(small(*SEEDED), out=tmp_path_factory.mktemp("seeded"))


def test_a_seeded_run_guarantees_nothing_and_says_so(seeded):
    assert seeded.summary["privacy"]["guarantee"].startswith("None: keys were made from the recipe's seed")
    assert {row["privacy/guarantee"] for row in seeded.metrics("round")[1:]} == {"none"}
    assert "None: keys" in (seeded.policy / "README.md").read_text()


def test_rows_tell_the_account_and_nothing_of_training_problems(seeded):
    row = seeded.metrics("round")[-1]
    assert 3.9 < row["privacy/epsilon"] <= 4.0
    assert row["privacy/epsilon"] == max(row["clients/level-1/epsilon"], row["clients/level-2/epsilon"])
    text = (seeded.folder / "metrics.jsonl").read_text()
    for private in ("reward", "entropy", "completions/", "informative", "sampling/", "loss", "num_tokens"):
        assert private not in text
    assert "time/" not in text and "Seconds and tokens" not in (seeded.folder / "report.html").read_text()
    records = [json.loads((seeded.folder / name).read_text()) for name in ("partition.json", "summary.json")]
    assert all(set(row) == {"client", "problems"} for row in records[0]["rows"])
    final = records[1]["evaluation"]["final"]
    assert final["by_client"] == {} and final["accuracy_by_sample"] is None and final["accuracy"] >= 0


def test_a_stopped_run_resumes_to_the_same_bits_and_pays_once(seeded, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hanse.train(small(*SEEDED), out=tmp_path, progress=StopAfter(1))
    (folder,) = tmp_path.iterdir()
    resumed = hanse.resume(folder)
    assert resumed.summary["policy_sha256"] == seeded.summary["policy_sha256"]
    assert without_times(resumed.metrics("step")) == without_times(seeded.metrics("step"))
    assert accounts(folder) == accounts(seeded.folder)


def test_workers_change_nothing(seeded, tmp_path):
    pooled = hanse.train(small(*SEEDED, "runtime.workers=2"), out=tmp_path)
    assert pooled.summary["policy_sha256"] == seeded.summary["policy_sha256"]
    assert accounts(pooled.folder) == accounts(seeded.folder)


def test_a_run_with_the_system_s_keys_states_its_guarantee_and_spends_its_budget(tmp_path):
    run = hanse.train(small(*SYSTEM, mode="central", rounds=1), out=tmp_path)
    words = run.summary["privacy"]["guarantee"]
    assert words.startswith("The trained policy is (ε, δ)-differentially private")
    assert words in (run.policy / "README.md").read_text()
    page = (run.folder / "report.html").read_text()
    assert words in page and "What each client spent" in page
    (account,) = accounts(run.folder)
    assert account[0]["seeded"] is False and [line["steps"] for line in account[1:]] == [2]


def test_a_fixed_noise_stops_the_run_at_the_budget(tmp_path):
    run = hanse.train(small(*SEEDED, "privacy.noise=0.4", "privacy.epsilon=6", rounds=6), out=tmp_path)
    assert run.summary["rounds"] == 4
    abstained = [row["privacy/abstained"] for row in run.metrics("round")[1:]]
    assert abstained == [0, 0, 1, 1]  # of the client with fewer problems, which pays more for a round
    assert "spent its privacy budget" in run.summary["stopped"]
    assert run.metrics("round")[-1]["privacy/epsilon"] <= 6
    before = accounts(run.folder)
    recipe = run.folder / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("rounds = 6", "rounds = 7"))
    assert hanse.resume(run.folder).already_finished
    assert [sum(line["steps"] for line in account[1:]) for account in before] == [8, 4]
    assert accounts(run.folder) == before


def test_too_few_problems_are_told_before_anything_is_spent(tmp_path):
    with pytest.raises(RecipeError, match=r"grpo\.prompts_per_step: client 0 has"):
        hanse.train(small(*SYSTEM, "grpo.prompts_per_step=100000"), out=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_after_kill_9_nothing_that_left_is_uncounted(seeded, tmp_path):
    out, path = tmp_path / "out", tmp_path / "recipe.toml"
    path.write_text(dump_recipe(small(*SEEDED)))
    process = start(path, out)
    deadline = time.monotonic() + 90
    while rounds_done(out) < 1 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (folder,) = out.iterdir()
    done = rounds_done(out)
    for account in accounts(folder):
        assert sum(line["steps"] for line in account[1:]) >= 2 * done
    resumed = hanse.resume(folder)
    assert resumed.summary["policy_sha256"] == seeded.summary["policy_sha256"]
    assert accounts(folder) == accounts(seeded.folder)
