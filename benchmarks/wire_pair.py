"""The update of a real run as the two files that `benchmarks/wire.py --pair` reads.

    hanse train recipes/smollm2.toml --set policy.train=full --set policy.dtype=bfloat16 \\
        --set partition.clients=1 --set partition.by=iid --set grpo.lr=3e-6 --set grpo.local_steps=5 \\
        --set rounds=2
    python benchmarks/wire_pair.py runs/smollm2-001 pair
    python benchmarks/wire.py --pair pair/before.safetensors pair/after.safetensors

With one client the server's values after a round are what the client uploaded: those of the last two rounds
are an update from an off-grid start, as the client keeps what the cast dropped in the first.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from safetensors.torch import save_file

from hanse.policy.build import build_policy
from hanse.recipe.load import load_recipe
from hanse.runtime.state import load_tensors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    recipe = load_recipe(arguments.run / "recipe.toml")
    start = arguments.run / "start.safetensors"
    policy = build_policy(recipe.policy, recipe.start_seed, start if start.exists() else None)
    arguments.out.mkdir(parents=True, exist_ok=True)
    rounds = sorted((arguments.run / "rounds").iterdir())[-2:]
    for name, folder in zip(("before", "after"), rounds, strict=True):
        tensors, _ = load_tensors(folder / "server-0000.safetensors")
        cast = tensors["master"].to(getattr(torch, recipe.exchange_dtype))
        named = {key: value.clone() for key, value in policy.parameters.views(cast).items()}
        save_file(named, arguments.out / f"{name}.safetensors")


if __name__ == "__main__":
    main()
