"""Sums that must come out: batches, shapes, shares. Each error shows its arithmetic and suggests a value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hanse.errors import RecipeError

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe
    from hanse.recipe.tasks import TaskSpec

ARITHMETIC_PROMPT, ARITHMETIC_ANSWER = 8, 4
"""Characters of "abc+def=" and of its answer."""
WORKED_LEVELS, WORKED_PROMPT, WORKED_SOLUTION = 3, 6, {"rationale": 16, "program": 18}
"""Levels; words of "a + b + c =" and of a completion that writes every step once."""


def divisors(n: int) -> list[int]:
    """All divisors of n, rising."""
    return [d for d in range(1, n + 1) if n % d == 0]


def prompts_per_update(recipe: Recipe) -> int:
    """Problems behind one learner's step: the central learner takes those of all clients."""
    clients = recipe.partition.clients if recipe.mode == "central" else 1
    return recipe.grpo.prompts_per_step * clients


def check_group_size(recipe: Recipe) -> None:
    """A group of one has no advantage."""
    grpo = recipe.grpo
    if grpo.group_size >= 2:
        return
    prompts = max(1, grpo.prompts_per_step // 8)
    raise RecipeError(
        "grpo.group_size",
        f"{grpo.group_size} completion a problem leaves its advantage (r - mean) / std = 0 / 0 undefined: "
        "a group of one has nobody to be compared with.",
        f"Use at least 2; usual is group_size = 8 with prompts_per_step = {prompts} (8 × {prompts} = "
        f"{8 * prompts} completions a step). Baselines over the whole batch (REINFORCE++) would do "
        "without groups; Hanse does not offer them.",
    )


def check_micro_batch(recipe: Recipe) -> None:
    """A micro-batch is whole groups, or an even part of one."""
    grpo = recipe.grpo
    size, G = grpo.micro_batch, grpo.group_size
    if size is None or size % G == 0 or G % size == 0:
        return
    total = prompts_per_update(recipe) * G
    parts = divisors(G)
    raise RecipeError(
        "grpo.micro_batch",
        f"{size} completions are neither whole groups nor an even part of one: {size} / {G} = {size / G:.4g} "
        f"with group_size = {G} (a step has {total // G} problems × {G} = {total} completions).",
        f"Use micro_batch = {nearest(size, {*parts, *range(G, total + 1, G)})}. Valid values: "
        f"{', '.join(map(str, parts))} and multiples of {G} up to {total}.",
    )


def check_mini_batches(recipe: Recipe) -> None:
    """Mini-batches are equally large sets of groups."""
    count, prompts = recipe.grpo.mini_batches, prompts_per_update(recipe)
    if prompts % count == 0:
        return
    valid = divisors(prompts)
    raise RecipeError(
        "grpo.mini_batches",
        f"{prompts} problems a step do not divide into {count} mini-batches: {prompts} / {count} = "
        f"{prompts / count:.4g}.",
        f"Use mini_batches = {nearest(count, valid)}. Valid values: {listed(valid)}.",
    )


def check_clients(recipe: Recipe) -> None:
    """Every worker needs a client, and each level of arithmetic an owner."""
    clients, task, partition = recipe.partition.clients, recipe.task, recipe.partition
    if recipe.mode != "central" and recipe.runtime.workers > clients:
        raise RecipeError(
            "runtime.workers",
            f"{recipe.runtime.workers} processes for {clients} clients: a client trains in one process, so "
            f"{recipe.runtime.workers - clients} would stay idle.",
            f"Use workers = {clients}, or fewer.",
        )
    levels, each = _levels(task), partition.clients_per_value
    if levels is not None and partition.by == "column" and clients != levels * each:
        owned = "each client owns one value" if each == 1 else f"{each} clients share one value"
        raise RecipeError(
            "partition.clients",
            f"{clients} clients for {levels} values of the column {partition.column!r}: with "
            f'by = "column" {owned}.',
            f'Use clients = {levels * each}, or by = "dirichlet" for uneven mixtures.',
        )


def check_tiny_shape(recipe: Recipe) -> None:
    """Attention heads split the hidden size, and rotary positions pair the entries of a head."""
    policy = recipe.policy
    if policy.type != "tiny":
        return
    hidden, heads = policy.hidden, policy.heads
    if hidden % heads == 0 and hidden // heads % 2 == 0:
        return
    valid = [h for h in divisors(hidden) if hidden // h % 2 == 0]
    if not valid:
        raise RecipeError("policy.hidden", f"{hidden} is odd.", f"Use hidden = {hidden + 1}.")
    raise RecipeError(
        "policy.heads",
        f"{hidden} / {heads} = {hidden / heads:.4g} entries a head; it must be a whole, even number.",
        f"Use heads = {nearest(heads, valid)}. Valid values with hidden = {hidden}: {listed(valid)}.",
    )


def _levels(task: TaskSpec) -> int | None:
    """How many levels a task has by definition."""
    if task.type == "arithmetic":
        return task.levels
    return WORKED_LEVELS if task.type == "worked-sums" else None


def tiny_lengths(task: TaskSpec) -> tuple[int, int] | None:
    """Tokens of a prompt of the tiny policy, and of its shortest right completion; None: not its task."""
    if task.type == "arithmetic":
        return ARITHMETIC_PROMPT, ARITHMETIC_ANSWER
    if task.type == "worked-sums":
        return WORKED_PROMPT, WORKED_SOLUTION[task.form]
    return None


def check_tiny_lengths(recipe: Recipe) -> None:
    """Prompt, answer and end token fit into the limits."""
    policy, grpo, lengths = recipe.policy, recipe.grpo, tiny_lengths(recipe.task)
    if policy.type != "tiny" or lengths is None:
        return
    prompt, answer = lengths
    if grpo.max_new_tokens < answer:
        what = "sums have 4 digits" if recipe.task.type == "arithmetic" else f"the shortest has {answer}"
        raise RecipeError(
            "grpo.max_new_tokens",
            f"{grpo.max_new_tokens} tokens cut every answer off: {what}.",
            f"Use max_new_tokens = {answer + 1} (with the end token), or more.",
        )
    if grpo.max_prompt_tokens is not None and grpo.max_prompt_tokens < prompt:
        raise RecipeError(
            "grpo.max_prompt_tokens",
            f"every prompt has {prompt} tokens, more than {grpo.max_prompt_tokens}.",
            f"Use max_prompt_tokens = {prompt}, or leave it out.",
        )
    needed = prompt + grpo.max_new_tokens
    if needed > policy.context:
        raise RecipeError(
            "policy.context",
            f"{prompt} prompt tokens + {grpo.max_new_tokens} new tokens = {needed}, more than "
            f"the context of {policy.context}.",
            f"Use context = {needed}, or max_new_tokens = {answer + 1}: enough for a right completion.",
        )


def check_lessons(recipe: Recipe) -> None:
    """Who is taught worked sums is taught by the task; shares of what is read are shares."""
    task = recipe.task
    if task.type != "worked-sums":
        return
    own = {f"swarm.policies.{i}": policy for i, policy in enumerate(recipe.swarm.policies)}
    for field, policy in ({"policy": recipe.policy} | own).items():
        if policy.type == "tiny" and policy.warmup != type(policy.warmup)():
            problem = 'is how sums of task "arithmetic" are taught; "worked-sums" brings its own lessons.'
            raise RecipeError(f"{field}.warmup", problem, "Leave it out; the settings are in task.lessons.")
    total = task.lessons.wrong_format + task.lessons.chatter
    if total > 1:
        raise RecipeError(
            "task.lessons.wrong_format",
            f"wrong_format + chatter = {task.lessons.wrong_format:g} + {task.lessons.chatter:g} = {total:g}: "
            "more than all.",
            f"Use wrong_format = {1 - task.lessons.chatter:g} or less.",
        )


def check_warmup(recipe: Recipe) -> None:
    """One warm-up share a level; shares that can be drawn from."""
    policy, task = recipe.policy, recipe.task
    if (
        policy.type != "tiny"
        or task.type != "arithmetic"
        or not (policy.warmup.max_steps or policy.warmup.noisy_steps)
    ):
        return
    lists = {"mix_by_level": policy.warmup.mix_by_level, "right_by_level": policy.warmup.right_by_level}
    for name, values in lists.items():
        field = f"policy.warmup.{name}"
        if len(values) != task.levels:
            examples = [f"{n} = {_stretched(v, task.levels)}" for n, v in lists.items()]
            raise RecipeError(
                field,
                f"{len(values)} values for {task.levels} levels (task.levels).",
                f"Give one a level, for example {' and '.join(examples)}.",
            )
        if not all(0 <= value <= 1 for value in values):
            raise RecipeError(field, f"{values} holds values outside 0 … 1.", "Give probabilities.")
    if sum(policy.warmup.mix_by_level) == 0:
        raise RecipeError("policy.warmup.mix_by_level", "its sum is 0.", "Give a level a share above 0.")


def _stretched(values: list[float], length: int) -> list[float]:
    return (values + [values[-1] if values else 0.5] * length)[:length]


def check_splits(recipe: Recipe) -> None:
    """Something is left to train on."""
    task = recipe.task
    if task.type == "arithmetic" or task.type == "worked-sums" or task.type == "synthetic-preferences":
        return
    own_held_out = (task.type in ("jsonl", "parquet") and task.held_out_path) or (
        task.type == "huggingface" and task.held_out_split
    )
    held_out = 0.0 if own_held_out else task.held_out_fraction
    if held_out + task.validation_fraction >= 1:
        raise RecipeError(
            "task.held_out_fraction",
            f"{held_out:g} held out + {task.validation_fraction:g} for validation = "
            f"{held_out + task.validation_fraction:g}: nothing is left to train on.",
            "Use held_out_fraction = 0.1 and validation_fraction = 0.1, for example.",
        )
    if task.type == "reasoning-gym" and task.size < len(task.levels):
        raise RecipeError(
            "task.size",
            f"{task.size} problems for {len(task.levels)} levels: some would have none.",
            f"Use size = {100 * len(task.levels)}, for example.",
        )


def check_evaluation(recipe: Recipe) -> None:
    """A stop rule needs an evaluation before the end."""
    evaluation = recipe.evaluation
    stops = evaluation.stop_at is not None or evaluation.patience is not None
    if stops and evaluation.every > recipe.rounds:
        raise RecipeError(
            "evaluation.every",
            f"an evaluation every {evaluation.every} rounds never comes in {recipe.rounds} rounds, so "
            "stop_at and patience could not act.",
            f"Use every = {max(1, recipe.rounds // 10)}.",
        )


def check_optimiser(recipe: Recipe) -> None:
    """Adam's averages forget something."""
    for i, beta in enumerate(recipe.grpo.betas):
        if not 0 <= beta < 1:
            raise RecipeError(f"grpo.betas.{i}", f"{beta:g} is outside 0 ≤ beta < 1.", "Use [0.9, 0.99].")


def nearest(value: int, valid: Iterable[int]) -> int:
    """The valid value closest to what was asked for; of two equally close, the smaller."""
    return min(valid, key=lambda v: (abs(v - value), v))


def listed(values: list[int], most: int = 12) -> str:
    """The values with commas, the middle left out where there are many."""
    if len(values) <= most:
        return ", ".join(map(str, values))
    return f"{', '.join(map(str, values[: most - 1]))}, …, {values[-1]}"


def check_train_counts(recipe: Recipe) -> None:
    """One count a level."""
    task = recipe.task
    if task.type != "arithmetic" or task.train_counts is None or len(task.train_counts) == task.levels:
        return
    raise RecipeError(
        "task.train_counts",
        f"{len(task.train_counts)} counts for {task.levels} levels.",
        "Give one a level, easiest first, or leave it out.",
    )


def check_screening(recipe: Recipe) -> None:
    """A step's rollouts are enough for one prompt to be screened and deepened."""
    grpo = recipe.grpo
    if grpo.screening == "none":
        return
    total, each = grpo.prompts_per_step * grpo.group_size, grpo.screen_size + grpo.deepen
    if total < each:
        raise RecipeError(
            "grpo.deepen",
            f"prompts_per_step × group_size = {total} rollouts a step are fewer than screen_size + deepen = "
            f"{grpo.screen_size} + {grpo.deepen}, what one prompt may take.",
            f"Use deepen = {max(2, total - grpo.screen_size)} or less, or more prompts a step.",
        )
    for field in ("dynamic_sampling", "mini_batches"):
        if getattr(grpo, field) not in (False, 1):
            problem = "does not go with screening, which decides itself how many prompts are trained on."
            raise RecipeError(f"grpo.{field}", problem, 'Leave it out, or use screening = "none".')
