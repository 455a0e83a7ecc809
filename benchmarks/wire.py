"""Bytes and speed of a sparse patch against other codings and against its entropy. One core.

    python benchmarks/wire.py [--repeats 5] [--out benchmarks/results]
    python benchmarks/wire.py --pair before.safetensors after.safetensors [--dtype bfloat16]

Synthetic updates: weights N(0, 0.02) in bfloat16, Gaussian steps scaled for the density of changed entries.
"On grid" the float32 weights start at the bfloat16 values, "off grid" anywhere in their rounding cells. A
pair is two files of the same tensors (.safetensors, or .npz with uint16 arrays standing for bfloat16 bits).
Every patch is decoded again and compared. "Compression" as the Fed-GRPO paper (2610.11502) counts it is
entries over sent entries, not bytes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import zstandard

from hanse.federation.wire.buckets import exponents
from hanse.federation.wire.layout import DTYPES, Bits, Layout, bits_of
from hanse.federation.wire.ordered import outward_steps
from hanse.federation.wire.patch import changed, decode_patch, digest_of_values, encode_patch

DENSITIES = (0.032, 0.01, 0.0016)
TARGETS = {
    "3.2 %, off grid": {"COO": 7.0, "dense": 70.0},
    "3.2 %, on grid": {"COO": 10.0, "dense": 70.0},
}
SPEED_TARGETS = {
    ("small", "encode"): 100,
    ("small", "decode"): 150,
    ("fast", "encode"): 300,
    ("fast", "decode"): 300,
}
MANTISSA = {"float32": 23, "bfloat16": 7, "float16": 10}


@dataclass(frozen=True)
class Update:
    name: str
    layout: Layout
    base: torch.Tensor
    new: torch.Tensor


def synthetic_layout(layers: int = 3, width: int = 512, inner: int = 1408) -> Layout:
    shapes = {"embed": (8192, width), "norm": (width,)}
    for i in range(layers):
        shapes |= {f"{i}.{name}": (width, width) for name in ("k", "o", "q", "v")}
        shapes |= {f"{i}.down": (width, inner), f"{i}.gate": (inner, width), f"{i}.up": (inner, width)}
        shapes |= {f"{i}.norm1": (width,), f"{i}.norm2": (width,)}
    names = tuple(sorted(shapes))
    return Layout(names, tuple(shapes[name] for name in names), "bfloat16")


def synthetic(density: float, on_grid: bool, seed: int) -> Update:
    layout = synthetic_layout()
    random = torch.Generator().manual_seed(seed)
    weights = torch.randn(layout.numel, generator=random) * 0.02
    base = weights.bfloat16()
    start, noise = base.float() if on_grid else weights, torch.randn(layout.numel, generator=random)
    low, high, sample = 1e-9, 1e-1, slice(0, 1 << 21)
    for _ in range(25):
        scale = (low * high) ** 0.5
        moved = changed((start[sample] + scale * noise[sample]).bfloat16(), base[sample])
        low, high = (scale, high) if float(moved.float().mean()) < density else (low, scale)
    name = f"{density * 100:.3g} %, {'on' if on_grid else 'off'} grid"
    return Update(name, layout, base, (start + scale * noise).bfloat16())


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    with np.load(path, allow_pickle=False) as arrays:
        found = {name: torch.from_numpy(np.ascontiguousarray(arrays[name])) for name in arrays.files}
    return {name: t.view(torch.bfloat16) if t.dtype == torch.uint16 else t for name, t in found.items()}


def read_pair(before: Path, after: Path, dtype: str | None) -> Update:
    old, new = read_tensors(before), read_tensors(after)
    if old.keys() != new.keys() or any(old[name].shape != new[name].shape for name in old):
        raise SystemExit("the two files have other names or shapes")
    found = {str(t.dtype).removeprefix("torch.") for t in (*old.values(), *new.values())}
    if dtype is None and len(found) != 1:
        raise SystemExit(f"the tensors have several dtypes ({sorted(found)}): choose one by --dtype")
    names = tuple(sorted(old))
    layout = Layout(names, tuple(tuple(old[name].shape) for name in names), dtype or found.pop())
    flat = [torch.cat([t[name].reshape(-1).to(DTYPES[layout.dtype]) for name in names]) for t in (old, new)]
    return Update(f"{before.stem} to {after.stem}", layout, *flat)


def coo(new: Bits, at: np.ndarray) -> bytes:
    return at.astype("<i4").tobytes() + new[at].tobytes()


def short_gaps(new: Bits, at: np.ndarray) -> bytes:
    """uint16 gaps and values, zstd-1; over a longer gap an unchanged entry goes along."""
    gaps = np.diff(at, prepend=0)
    long = gaps > 65535
    stops = [np.arange(end - gap + 65535, end, 65535) for end, gap in zip(at[long], gaps[long], strict=True)]
    at = np.union1d(at, np.concatenate(stops)) if stops else at
    return zstd(np.diff(at, prepend=0).astype("<u2").tobytes() + new[at].tobytes())


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(data)


def peers(new: Bits, base: Bits) -> dict[str, int]:
    """Lengths of the true buffers."""
    at = np.flatnonzero(new != base)
    return {
        "dense": new.nbytes,
        "COO": len(coo(new, at)),
        "uint16 gaps + values + zstd-1": len(short_gaps(new, at)),
        "zstd-1 of dense": len(zstd(new.tobytes())),
        "zstd-1 of dense XOR base": len(zstd((new ^ base).tobytes())),
    }


def entropy(counts: np.ndarray) -> float:
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log2(share)).sum())


def bound(keys: np.ndarray, moved: np.ndarray, steps: np.ndarray) -> float:
    """Bytes: sum over buckets of size [H2(density) + density H(step)], plug-in estimates."""
    size = np.bincount(keys)
    order = np.argsort(keys[moved], kind="stable")
    count = np.bincount(keys[moved], minlength=len(size))
    bits, parts = 0.0, np.split(steps[order], np.cumsum(count)[:-1])
    for b in np.flatnonzero(count):
        bits += size[b] * entropy(np.array([count[b], size[b] - count[b]]))
        bits += count[b] * entropy(np.unique(parts[b], return_counts=True)[1])
    return bits / 8


def references(new: Bits, base: Bits, dtype: str) -> dict[str, float]:
    """Bytes of the iid entropy and of the conditional one over several buckets of the base's bits."""
    moved = np.flatnonzero(new != base)
    steps = outward_steps(new[moved], base[moved])
    low, top = MANTISSA[dtype], 8 * base.itemsize - 1
    keys = {"iid": np.zeros(len(base), dtype=np.int64), "exponent": exponents(base, dtype).astype(np.int64)}
    for extra in range(4):
        name = "sign, exponent" + (f", {extra} bits" if extra else "")
        keys[name] = (base >> (low - extra)).astype(np.int64)
    assert all(int(k.max()) < 1 << (top + 1) for k in keys.values())
    return {name: bound(key, moved, steps) for name, key in keys.items()}


def seconds(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Medians of wall and of processor time."""
    call()
    taken = []
    for _ in range(repeats):
        start = (time.perf_counter(), time.process_time())
        call()
        taken.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, processor = (statistics.median(column) for column in zip(*taken, strict=True))
    return wall, processor


def speeds(update: Update, profile: str, repeats: int) -> tuple[int, dict[str, float]]:
    """Bytes of the patch, and MB of dense values a second; "hashed": with the digests already known."""
    new, base, layout = update.new, update.base, update.layout
    patch = encode_patch(new, base, layout, profile=profile)
    assert not changed(decode_patch(patch, base, layout), new).any(), (
        "the patch does not give the values back"
    )
    known = {"base_digest": digest_of_values(base, layout)}
    both = {**known, "new_digest": digest_of_values(new, layout)}
    calls = {
        "encode": lambda: encode_patch(new, base, layout, profile=profile),
        "decode": lambda: decode_patch(patch, base, layout),
        "encode, hashed": lambda: encode_patch(new, base, layout, profile=profile, **both),
        "decode, hashed": lambda: decode_patch(patch, base, layout, **known),
    }
    dense, rates = layout.numel * layout.itemsize / 1e6, {}
    for name, call in calls.items():
        wall, processor = seconds(call, repeats)
        rates |= {name: dense / wall, f"{name}, processor time": dense / processor}
    return len(patch), rates


def measure(update: Update, repeats: int) -> dict[str, Any]:
    new, base = bits_of(update.new, update.layout), bits_of(update.base, update.layout)
    sent = int(np.count_nonzero(new != base))
    found: dict[str, Any] = {
        "update": update.name,
        "dtype": update.layout.dtype,
        "entries": len(base),
        "changed": sent,
    }
    found |= {"density": sent / len(base), "compression": len(base) / max(sent, 1), "peers": peers(new, base)}
    found |= {"references": references(new, base, update.layout.dtype), "bytes": {}, "MB/s": {}}
    for profile in ("small", "fast"):
        found["bytes"][profile], found["MB/s"][profile] = speeds(update, profile, repeats)
    return found


def print_case(found: dict[str, Any]) -> None:
    size, sent = found["bytes"]["small"], max(found["changed"], 1)
    print(
        f"\n{found['update']}: {found['entries']:,} entries, {100 * found['density']:.3f} % changed", end=""
    )
    print(f'; "compression" {found["compression"]:.1f} (entries over sent entries)')
    rows = {
        **found["bytes"],
        **found["peers"],
        **{f"entropy: {k}": v for k, v in found["references"].items()},
    }
    dense, pairs = found["peers"]["dense"], found["peers"]["COO"]
    print(f"  {'':34}{'bytes':>12}{'bits/sent':>11}{'dense/':>9}{'COO/':>8}{'small/':>8}")
    for name, count in rows.items():
        if count:
            ratios = f"{dense / count:9.1f}{pairs / count:8.2f}{size / count:8.3f}"
            print(f"  {name:34}{count:12,.0f}{8 * count / sent:11.3f}{ratios}")
    for profile, rates in found["MB/s"].items():
        for way in ("encode", "decode", "encode, hashed", "decode, hashed"):
            processor = rates[f"{way}, processor time"]
            print(f"  {profile} {way}: {rates[way]:.0f} MB/s ({processor:.0f} of processor time)")


def verdicts(found: dict[str, Any]) -> list[str]:
    """What a case reaches of its targets, one line each."""
    size, lines = found["bytes"]["small"], []
    if found["update"] in TARGETS:
        for peer, target in TARGETS[found["update"]].items():
            ratio = found["peers"][peer] / size
            lines.append(f"{found['update']}: {ratio:.2f} times smaller than {peer}, target {target:g}")
        near, iid = (size / found["references"][name] for name in ("exponent", "iid"))
        lines.append(f"{found['update']}: {near:.3f} of the entropy given the exponent, target at most 1.10")
        lines.append(f"{found['update']}: {iid:.3f} of the iid entropy, target below 1")
    for (profile, way), target in SPEED_TARGETS.items() if found["dtype"] == "bfloat16" else ():
        rate = found["MB/s"][profile][way]
        lines.append(f"{found['update']}: {profile} {way} {rate:.0f} MB/s, target {target}")
    return lines


def cases_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    ours = found["bytes"]["small"]
    return [
        {"name": f"{found['update']}: bytes against {peer}", "ours": ours, "peer": size, "ratio": size / ours}
        for peer, size in found["peers"].items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pair", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--dtype", choices=sorted(DTYPES), help="cast the pair to this exchange dtype")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results: list[dict[str, Any]] = []
    if arguments.pair:
        results.append(measure(read_pair(*arguments.pair, arguments.dtype), arguments.repeats))
        print_case(results[0])
    else:
        for number, (density, on_grid) in enumerate((d, g) for d in DENSITIES for g in (False, True)):
            results.append(measure(synthetic(density, on_grid, number), arguments.repeats))
            print_case(results[-1])
    write(results, arguments.out, "wire_pair.json" if arguments.pair else "wire.json")


def write(results: list[dict[str, Any]], out: Path, name: str) -> None:
    from hanse.runs.environment import environment

    reached = [line for found in results for line in verdicts(found)]
    print("", *reached, sep="\n")
    machine = environment() | {package: version(package) for package in ("constriction", "zstandard")}
    cases = [case for found in results for case in cases_of(found)]
    document = {"cases": cases, "measured": results, "targets": reached, "machine": machine}
    out.mkdir(parents=True, exist_ok=True)
    (out / name).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
