"""Latent groups of clients, found from the directions of their updates. Pure functions.

A client's signature is the direction of its update of the reward head, averaged over the rounds that it took
part in. Signatures are centred, projected on their principal directions, and split by k-means; the number of
groups is the one that separates best, or one where nothing does.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

SEPARATED = 0.15
"""Mean silhouette above which groups are believed. Random directions in some dozen dimensions have less."""
_MOST_STEPS = 50
_LEAST_SPREAD = 1e-3


@dataclass(frozen=True)
class Groups:
    """What is known of who belongs together. `posteriors_KC`: each client's, rows sum to 1, uniform where
    nothing is known of it; `separation`: the mean silhouette, 0 for one group."""

    posteriors_KC: Array
    separation: float = 0.0

    @classmethod
    def one(cls, clients: int) -> Groups:
        """Everybody in one group."""
        return cls(np.ones((clients, 1)))

    @classmethod
    def given(cls, labels_K: Labels) -> Groups:
        """Groups that somebody knows."""
        return cls(np.eye(int(labels_K.max()) + 1)[labels_K])

    @property
    def labels_K(self) -> Labels:
        """Each client's likeliest group."""
        labels: Labels = self.posteriors_KC.argmax(1)
        return labels

    @property
    def count(self) -> int:
        return int(self.posteriors_KC.shape[1])


def direction(update_D: Array) -> Array:
    """An update without its length; zeros stay zeros."""
    length = float(np.linalg.norm(update_D))
    return update_D / length if length > 0 else np.zeros_like(update_D)


def smoothed(past_D: Array | None, now_D: Array, ema: float) -> Array:
    """ema * past + (1 - ema) * now; the first one stands for itself."""
    return now_D if past_D is None else ema * past_D + (1 - ema) * now_D


def discover(signatures_KD: Array, seen_K: npt.NDArray[np.bool_], most: int) -> Groups:
    """Up to `most` groups of the clients that were seen; the others may belong to any of them."""
    known = signatures_KD[seen_K]
    best, found = SEPARATED, Groups.one(len(seen_K))
    for count in range(2, min(most, len(known) - 1) + 1):
        points = principal(known, count - 1)
        labels, centres = k_means(points, count)
        separation = silhouette(known, labels)
        if separation > best:
            posteriors = np.full((len(seen_K), count), 1 / count)
            posteriors[seen_K] = soft(points, labels, centres)
            best, found = separation, Groups(posteriors, separation)
    return found


def principal(points_ND: Array, count: int) -> Array:
    """Centred points in the coordinates of their `count` principal directions, shape (N, count)."""
    centred = points_ND - points_ND.mean(0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left[:, :count] * values[:count], dtype=np.float64)


def k_means(points_ND: Array, count: int) -> tuple[Labels, Array]:
    """Labels and centres (count, D), from centres as far apart as points are: without chance."""
    centres = _far_apart(points_ND, count)
    labels = _squares(points_ND, centres).argmin(1)
    for _ in range(_MOST_STEPS):
        centres = np.stack(
            [points_ND[labels == c].mean(0) if (labels == c).any() else centres[c] for c in range(count)]
        )
        now = _squares(points_ND, centres).argmin(1)
        if (now == labels).all():
            break
        labels = now
    return labels, centres


def _far_apart(points_ND: Array, count: int) -> Array:
    """First the point farthest from the mean, then always the one farthest from all chosen."""
    chosen = [int(_squares(points_ND, points_ND.mean(0, keepdims=True))[:, 0].argmax())]
    while len(chosen) < count:
        chosen.append(int(_squares(points_ND, points_ND[chosen]).min(1).argmax()))
    return points_ND[chosen]


def soft(points_ND: Array, labels_N: Labels, centres_CD: Array) -> Array:
    """Posteriors of equally likely round Gaussians with one spread, shape (N, C)."""
    inner = ((points_ND - centres_CD[labels_N]) ** 2).mean()
    exponents = -_squares(points_ND, centres_CD) / (2 * max(float(inner), _LEAST_SPREAD))
    weights = np.exp(exponents - exponents.max(1, keepdims=True))
    posteriors: Array = weights / weights.sum(1, keepdims=True)
    return posteriors


def silhouette(points_ND: Array, labels_N: Labels) -> float:
    """Mean over points of (b - a) / max(a, b): a is the mean distance within the group, b that to the nearest
    other one. Points alone in their group count 0; so does everything where there is one group."""
    present = np.unique(labels_N)
    if len(present) < 2:
        return 0.0
    distances = np.sqrt(_squares(points_ND, points_ND))
    means = np.stack([distances[:, labels_N == c].sum(1) for c in present], 1)
    sizes = np.array([(labels_N == c).sum() for c in present])
    own = labels_N[:, None] == present[None, :]
    alone = (own @ sizes) == 1
    inner = (means * own).sum(1) / np.maximum(own @ sizes - 1, 1)
    outer = np.where(own, np.inf, means / sizes).min(1)
    scores = np.where(alone, 0.0, (outer - inner) / np.maximum(np.maximum(inner, outer), 1e-300))
    return float(scores.mean())


def adjusted_rand(first_N: Labels, second_N: Labels) -> float:
    """Agreement of two partitions beyond chance (Hubert and Arabie 1985): 1 for equal ones, about 0 for
    unrelated ones; 1 where both put all points together, or none."""
    pairs = comb(len(first_N), 2)
    _, joint = np.unique(np.stack([first_N, second_N]), axis=1, return_counts=True)
    together = sum(comb(int(n), 2) for n in joint)
    rows, columns = (
        sum(comb(int(n), 2) for n in np.unique(labels, return_counts=True)[1])
        for labels in (first_N, second_N)
    )
    expected = rows * columns / pairs if pairs else 0.0
    most = (rows + columns) / 2
    return 1.0 if most == expected else (together - expected) / (most - expected)


def _squares(a_ND: Array, b_MD: Array) -> Array:
    """Squared distances, shape (N, M)."""
    differences = a_ND[:, None, :] - b_MD[None, :, :]
    squares: Array = (differences**2).sum(-1)
    return squares
