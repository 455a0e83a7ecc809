"""A reward function that raises for some completions: training goes on, and everybody hears why."""

from __future__ import annotations

from pathlib import Path

import pytest

import hanse
from hanse.runs import write_report
from hanse.runs.progress import SilentProgress
from tests.end_to_end.small import StopAfter, small_recipe, without_times

PICKY = [{"path": f"{Path(__file__).parent / 'shaped.py'}:picky"}]


class Heard(SilentProgress):
    def __init__(self):
        self.warnings = []

    def warning(self, text):
        self.warnings.append(text)


@pytest.mark.parametrize("workers", [1, 2])
def test_messages_are_told_once_each_and_counted_in_the_report(tmp_path, workers):
    heard = Heard()
    run = hanse.train(small_recipe(f"runtime.workers={workers}", rewards=PICKY), out=tmp_path, progress=heard)
    counts = run.summary["reward_errors"]
    assert sum(counts.values()) == run.summary["counters"]["unscored"] > len(counts) > 1
    told = [text for text in heard.warnings if "a reward function failed" in text]
    assert len(told) == len(counts)
    page = (run.folder / "report.html").read_text()
    for message, count in counts.items():
        assert message.startswith("picky: exception: ValueError: cannot read")
        (warning,) = [text for text in told if text.endswith(message)]
        assert warning.startswith("client ")
        assert f"A reward function failed on {count} completion" in page and message in page
    assert not [key for row in [*run.metrics(), *run.metrics("step")] for key in row if "errors" in key]


def test_counts_survive_a_stop(tmp_path):
    whole = hanse.train(small_recipe(rewards=PICKY), out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        hanse.train(small_recipe(rewards=PICKY), out=tmp_path / "cut", progress=StopAfter(2))
    (folder,) = (tmp_path / "cut").iterdir()
    assert "A reward function failed on" in write_report(folder).read_text()
    heard = Heard()
    run = hanse.resume(folder, heard)
    assert run.summary["reward_errors"] == whole.summary["reward_errors"]
    assert without_times(run.metrics()) == without_times(whole.metrics())
