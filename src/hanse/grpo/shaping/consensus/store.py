"""Node files: consensus nodes by problem, as JSON that anybody may write and nobody has to trust."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from hanse.errors import RecipeError
from hanse.grpo.shaping.consensus.nodes import Node
from hanse.storage import write_text

FORMAT = "hanse-consensus-1"
_MOST_BYTES = 256 << 20
_MOST_NODES = 1024
_LONGEST = 4096
_REMEDY = "Make it with `hanse consensus build RECIPE`."


@dataclass(frozen=True)
class Found:
    """Of one problem: `right` of `rollouts` completions, and the nodes that the right ones share."""

    right: int
    rollouts: int
    nodes: tuple[Node, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "right": self.right,
            "rollouts": self.rollouts,
            "nodes": [asdict(node) for node in self.nodes],
        }

    @classmethod
    def from_json(cls, row: Any) -> Found:
        """Raises ValueError for anything of another form."""
        if not isinstance(row, dict) or not isinstance(row.get("nodes"), list):
            raise ValueError("a problem has no list of nodes")
        right, rollouts, listed = row.get("right"), row.get("rollouts"), row["nodes"]
        if type(right) is not int or type(rollouts) is not int or not 0 <= right <= rollouts < 2**31:
            raise ValueError("a problem has an impossible count")
        if len(listed) > _MOST_NODES:
            raise ValueError(f"a problem has more than {_MOST_NODES} nodes")
        nodes = tuple(map(_node, listed))
        if len({node.key for node in nodes}) < len(nodes):
            raise ValueError("a problem has a node twice")
        return cls(right, rollouts, nodes)


def _node(row: Any) -> Node:
    if not isinstance(row, dict) or set(row) != {"key", "text", "support"}:
        raise ValueError("a node has other fields than key, text and support")
    key, text, support = row["key"], row["text"], row["support"]
    if not all(isinstance(s, str) and 0 < len(s) <= _LONGEST for s in (key, text)):
        raise ValueError("a node's key or text is no text, or too long")
    if type(support) not in (int, float) or not math.isfinite(support) or not 0 < support <= 1:
        raise ValueError("a node's support is not in (0, 1]")
    return Node(key, text, float(support))


def save_nodes(path: Path, made: Mapping[str, Any], problems: Mapping[str, Found]) -> None:
    """`made`: how the nodes came about, for the reader. Problems in order of their ids."""
    rows = {name: problems[name].to_json() for name in sorted(problems)}
    document = {"format": FORMAT, "made": dict(made), "problems": rows}
    write_text(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def load_nodes(path: str | Path, field: str = "grpo.shaping.consensus.nodes") -> Mapping[str, Found]:
    """What a node file holds, by problem id. Raises RecipeError on `field` for a file that is none."""
    try:
        status = Path(path).stat()
        if not S_ISREG(status.st_mode) and not S_ISDIR(status.st_mode):
            raise ValueError("it has no size")  # reading a device or a pipe need not end
        if status.st_size > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
        return _read(Path(path), status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise RecipeError(
            field, f"{str(path)!r} cannot be read ({error.strerror or error}).", _REMEDY
        ) from None
    except (ValueError, RecursionError) as error:
        raise RecipeError(field, f"{str(path)!r} is no file of nodes: {error}.", _REMEDY) from None


@lru_cache(maxsize=4)
def _read(path: Path, changed: int, size: int) -> Mapping[str, Found]:
    """Of the file as it is now: `changed` and `size` are its own."""
    document = json.loads(path.read_bytes())
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT!r}")
    rows = document.get("problems")
    if not isinstance(rows, dict):
        raise ValueError("it has no problems")
    return {str(name): Found.from_json(row) for name, row in rows.items()}
