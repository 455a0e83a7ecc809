"""What can only be checked once the tokenizer is there, and before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence

from hanse.errors import RecipeError
from hanse.policy.policy import Policy
from hanse.recipe.model import Recipe
from hanse.swarm.delivery import MAX_ID
from hanse.tasks.partition import ClientData
from hanse.tasks.problem import Problem, Task


def preflight(recipe: Recipe, policy: Policy, task: Task, parts: Sequence[ClientData]) -> None:
    """Raises RecipeError for prompts that do not fit the model's context, for an empty held-out split, and
    for problems that a swarm cannot share."""
    held_out = task.problems("held_out")
    if not held_out:
        raise RecipeError(
            "task", "no problem is held out for evaluation.", "Raise task.held_out_fraction or add problems."
        )
    if recipe.mode == "reward-model":  # which cuts what is too long
        return
    limit = recipe.grpo.max_prompt_tokens
    training = [p for part in parts for p in part.problems]
    if limit is not None:
        training = [p for p in training if len(policy.encode(p.prompt)) <= limit]
    if recipe.mode == "swarm":
        _check_swarm(recipe, training)
    evaluated = [*held_out, *task.problems("validation")]
    _check_context(recipe, policy, _lengths(policy, training), _lengths(policy, evaluated))


def _check_swarm(recipe: Recipe, training: Sequence[Problem]) -> None:
    """Vertical nodes have problems of their own, each with an id that a delivery can carry."""
    nodes, count = recipe.swarm.nodes, len({problem.id for problem in training})
    if recipe.swarm.topology == "vertical" and count < nodes:
        problem = f"{nodes} vertical nodes need a problem each; there are {count} to train on."
        raise RecipeError("swarm.nodes", problem, 'Use more problems, or topology = "horizontal".')
    longest = max((len(problem.id) for problem in training), default=0)
    if longest > MAX_ID:
        problem = f"a problem's id has {longest} characters; a delivery names it with at most {MAX_ID}."
        raise RecipeError("task", problem, "Shorten the ids.")


def _lengths(policy: Policy, problems: Sequence[Problem]) -> list[int]:
    return [len(policy.encode(problem.prompt)) for problem in problems]


def _check_context(recipe: Recipe, policy: Policy, training: list[int], evaluated: list[int]) -> None:
    """Raises RecipeError for prompts of these lengths that leave no room; only training ones are left out."""
    new, room = recipe.grpo.max_new_tokens, policy.context - recipe.grpo.max_new_tokens
    longest = max([*training, *evaluated])
    if longest <= room:
        return
    of_training = max(evaluated) <= room
    lengths, kind = (training, "training") if of_training else (evaluated, "held-out and validation")
    remedies = ["shorten the prompts"]
    if longest < policy.context:
        remedies.insert(0, f"lower grpo.max_new_tokens to {policy.context - longest}")
    if recipe.policy.type == "tiny":
        remedies.insert(0, f"raise policy.context to {longest + new}")
    if of_training and room > 0:
        remedies.insert(0, f"set grpo.max_prompt_tokens = {room}, which leaves out such training prompts")
    if not of_training:
        remedies[-1] += " or remove those problems: grpo.max_prompt_tokens leaves out training prompts only"
    over = sum(length > room for length in lengths)
    raise RecipeError(
        "grpo.max_prompt_tokens" if of_training and room > 0 else "grpo.max_new_tokens",
        f"{over} of {len(lengths)} {kind} prompts do not fit: the longest has {max(lengths)} tokens, with "
        f"{new} new ones more than the model's context of {policy.context}.",
        f"Either {', or '.join(remedies)}.",
    )
