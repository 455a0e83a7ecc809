"""Noise on top of what was learnt."""

from __future__ import annotations

import torch
from torch import Tensor

from hanse.adversary.updates.base import Scene
from hanse.randomness import generator
from hanse.recipe.adversary import AdversarySpec

FACTOR = 3.0


def gaussian(spec: AdversarySpec, scene: Scene) -> Tensor:
    """g + N(0, s^2) on the entries that g changes; s is `factor` (3) times their root mean square. Shape
    (F, D)."""
    factor = FACTOR if spec.factor is None else spec.factor
    changed_FD = scene.own_FD != 0
    rms_F = (scene.own_FD.square().sum(1) / changed_FD.sum(1).clamp(min=1)).sqrt()
    noise_FD = torch.stack([_noise(scene, liar) for liar in scene.liars])
    return scene.own_FD + factor * rms_F.unsqueeze(1) * noise_FD * changed_FD


def _noise(scene: Scene, liar: int) -> Tensor:
    return torch.from_numpy(generator(scene.seed, "gaussian", liar).standard_normal(scene.own_FD.shape[1]))
