"""Flower's simulation engine: Ray's processes, the same bits, resumed too, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import hanse
from hanse.recipe.load import dump_recipe
from hanse.runtime.flower.simulation import resources
from tests.end_to_end.small import small_recipe

SIMULATED = {"type": "flower-simulation", "workers": 2, "deadline_s": 120.0}
STOPPED = """
import sys
import hanse
from tests.end_to_end.small import StopAfter

if __name__ == "__main__":
    try:
        hanse.train(hanse.load_recipe(sys.argv[1]), out=sys.argv[2], progress=StopAfter(1))
    except KeyboardInterrupt:
        print("stopped")
    run = hanse.resume(__import__("pathlib").Path(sys.argv[2]) / "small-001")
    print(run.summary["policy_sha256"])
"""


def test_what_the_engine_may_take():
    taken = resources(small_recipe(runtime=SIMULATED | {"threads": 3}), clients=2)
    assert taken["init_args"]["num_cpus"] == 6
    assert taken["client_resources"] == {"num_cpus": 3, "num_gpus": 0.0}


@pytest.mark.slow
def test_the_simulation_equals_a_local_run_and_goes_on_after_a_stop(tmp_path):
    local = hanse.train(small_recipe(), out=tmp_path)
    recipe, out = tmp_path / "recipe.toml", tmp_path / "simulated"
    recipe.write_text(dump_recipe(small_recipe(runtime=SIMULATED)))
    script = tmp_path / "script.py"
    script.write_text(STOPPED)
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, str(script), str(recipe), str(out)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.split() == ["stopped", local.summary["policy_sha256"]], done.stderr[-3000:]
    assert not list((out / "small-001").glob(".nodes*"))
