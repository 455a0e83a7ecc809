"""Cross-checks of a swarm's recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hanse.errors import RecipeError
from hanse.recipe import pairs, sums
from hanse.recipe.swarm import NEEDS_ONE_POLICY

if TYPE_CHECKING:
    from hanse.recipe.model import Recipe


def check_swarm(recipe: Recipe) -> None:
    """All of them; those of the liars also where there is no swarm."""
    _liars(recipe)
    _control(recipe)
    if recipe.mode != "swarm":
        return
    for check in (_one_step, _shares, _prompts, _policies, _learner, _defences, _places):
        check(recipe)


def _liars(recipe: Recipe) -> None:
    """Lying nodes are nodes of a swarm in which somebody is honest."""
    liars, nodes = set(recipe.adversary.nodes), recipe.swarm.nodes
    if not liars:
        return
    if recipe.mode != "swarm":
        problem = f'there are no nodes in mode "{recipe.mode}".'
        raise RecipeError("adversary.nodes", problem, 'Leave it out, or use mode = "swarm".')
    if max(liars) >= nodes:
        problem = f"there is no node {max(liars)}: the swarm has {nodes}, counted from 0."
        raise RecipeError("adversary.nodes", problem, f"Use indices from 0 to {nodes - 1}.")
    if len(liars) == nodes:
        problem = "all nodes lie, so there is nobody to attack."
        raise RecipeError("adversary.nodes", problem, "Leave one out, or raise swarm.nodes.")


def _control(recipe: Recipe) -> None:
    """A control differs from its run."""
    if not recipe.adversary.control or recipe.adversary.nodes:
        return
    problem = "nobody lies here, so a control would be the same run once more."
    if recipe.mode != "swarm":
        problem = f'only a swarm with liars has a control; the mode is "{recipe.mode}".'
    remedy = 'Leave it out, or name liars in adversary.nodes (with mode = "swarm").'
    raise RecipeError("adversary.control", problem, remedy)


def _one_step(recipe: Recipe) -> None:
    steps = recipe.grpo.local_steps
    if steps != 1:
        problem = f"a swarm takes one step an exchange, and this says {steps}."
        raise RecipeError("grpo.local_steps", problem, "Set grpo.local_steps = 1 and more rounds instead.")


def _shares(recipe: Recipe) -> None:
    """Every node has the same number of slots."""
    nodes, topology = recipe.swarm.nodes, recipe.swarm.topology
    field = "group_size" if topology == "horizontal" else "prompts_per_step"
    size = getattr(recipe.grpo, field)
    if size % nodes == 0:
        return
    what = "completions a problem" if topology == "horizontal" else "problems a round"
    raise RecipeError(
        f"grpo.{field}",
        f"{nodes} nodes cannot share {size} {what} equally: {size} / {nodes} = {size / nodes:.3g}.",
        f"Use {size // nodes * nodes or nodes} or {(size // nodes + 1) * nodes}, or another swarm.nodes.",
    )


def _prompts(recipe: Recipe) -> None:
    """Only whole groups can be chosen, or mixed."""
    swarm = recipe.swarm
    if swarm.topology == "vertical":
        return
    if swarm.prompts == "chosen":
        problem = "in a horizontal swarm all nodes answer the same problems, so none can choose its own."
        raise RecipeError("swarm.prompts", problem, 'Use "assigned", or topology = "vertical".')
    if swarm.external is not None:
        problem = "in a horizontal swarm every group is everybody's, so there are no foreign groups to draw."
        raise RecipeError("swarm.external", problem, 'Leave it out, or use topology = "vertical".')


def _policies(recipe: Recipe) -> None:
    """Each node's policy is one that a recipe could have."""
    for i, spec in enumerate(recipe.swarm.policies):
        own = recipe.model_copy(update={"policy": spec})
        try:
            for check in (
                pairs.check_tiny_task,
                sums.check_tiny_shape,
                sums.check_tiny_lengths,
                sums.check_warmup,
            ):
                check(own)
        except RecipeError as error:
            field = error.field.replace("policy", f"swarm.policies.{i}", 1)
            raise RecipeError(field, error.problem, error.remedy) from error


def _learner(recipe: Recipe) -> None:
    """What rests on the sampler's own rollouts has no meaning for others'."""
    grpo = recipe.grpo
    own = {"dynamic_sampling": False, "screening": "none", "allocation": "uniform"}
    for field, off in (own | {"importance_correction": "none"}).items():
        if getattr(grpo, field) != off:
            problem = "rests on what a learner samples by itself; in a swarm others do."
            raise RecipeError(f"grpo.{field}", problem, "Leave it out.")
    if grpo.objective == "rloo" and grpo.beta > 0:
        problem = "RLOO's KL penalty on rewards is not available in a swarm."
        raise RecipeError("grpo.beta", problem, 'Set it to 0, or use grpo.objective = "grpo".')


def _defences(recipe: Recipe) -> None:
    """Each defence has what it looks at."""
    swarm = recipe.swarm
    if isinstance(swarm.defences, str):
        return
    for i, defence in enumerate(swarm.defences):
        field = f"swarm.defences.{i}"
        if defence.type in NEEDS_ONE_POLICY and not swarm.one_policy:
            problem = f'"{defence.type}" compares with the receiver\'s own policy, and here nodes differ.'
            remedy = "Leave it out; length, duplicates, lengths, steps and judge work between policies."
            raise RecipeError(f"{field}.type", problem, remedy)
        if defence.type == "top-k" and defence.k is None and recipe.grpo.top_k == 0:
            problem = "the sampler cuts nothing (grpo.top_k = 0), so every token passes."
            raise RecipeError(f"{field}.k", problem, "Give k, or set grpo.top_k.")
        if defence.type == "steps" and not recipe.rationales_by_rule:
            problem = f'it reads the rationales of worked sums, and the task ("{recipe.task.type}") has none.'
            raise RecipeError(f"{field}.type", problem, 'Use type = "judge".')
        if defence.type == "length" and (defence.limit or 0) > recipe.grpo.max_new_tokens:
            problem = f"{defence.limit} tokens are more than any completion has (grpo.max_new_tokens)."
            raise RecipeError(f"{field}.limit", problem, f"Use at most {recipe.grpo.max_new_tokens}.")
    _one_cut(recipe)


def _one_cut(recipe: Recipe) -> None:
    """Margins are measured once, against one k."""
    defences = recipe.swarm.defences
    cuts = {i: one.k for i, one in enumerate(defences) if not isinstance(one, str) and one.type == "top-k"}
    if len({k or recipe.grpo.top_k for k in cuts.values()}) > 1:
        problem = "two top-k with different k; all would be measured against the first."
        raise RecipeError(f"swarm.defences.{max(cuts)}.k", problem, "Give both the same k, or keep one.")


def _places(recipe: Recipe) -> None:
    """Nodes of a local swarm share a process."""
    if recipe.runtime.workers != 1:
        problem = "the nodes of a local swarm run in one process."
        raise RecipeError("runtime.workers", problem, "Set it to 1.")
