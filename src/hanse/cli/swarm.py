"""What `hanse check` says of a swarm."""

from __future__ import annotations

from hanse.cli.estimate import Line, human, policies
from hanse.cli.sizes import Sizes
from hanse.recipe.model import Recipe
from hanse.recipe.swarm_defaults import defences_in_force

_HEADER = 160
"""Bytes of a delivery beside its completion, about: problem, slot, seed, digest of the policy."""
_CLAIMED, _WRITTEN = 8, 4
"""Bytes a token: its id and the sender's log-prob; as text, about."""
_STATE = 12
"""Bytes a trained value in a checkpoint: the value and two moments."""


def slots(recipe: Recipe) -> int:
    """Completions that a node sends a round."""
    return recipe.grpo.prompts_per_step * recipe.grpo.group_size // recipe.swarm.nodes


def replicas(recipe: Recipe) -> int:
    """Policies that are held in this process."""
    return 1 if recipe.swarm.one_replica else recipe.swarm.nodes


def batch_of_swarm(recipe: Recipe) -> list[str]:
    """Who writes what, from a round up to the whole run."""
    grpo, swarm = recipe.grpo, recipe.swarm
    total = grpo.prompts_per_step * grpo.group_size
    if swarm.topology == "horizontal":
        share = f"{grpo.group_size // swarm.nodes} completions of each problem"
    else:
        share = f"{grpo.prompts_per_step // swarm.nodes} whole groups, {_given(swarm.prompts)}"
    lines = [
        f"A round: {grpo.prompts_per_step} problems × {grpo.group_size} completions = {total:,} completions, "
        f"up to {grpo.max_new_tokens} tokens each.",
        f"A node: {total:,} / {swarm.nodes} nodes = {slots(recipe)} slots, {share}.",
    ]
    if swarm.rebaseline:
        more = swarm.rebaseline * grpo.prompts_per_step
        lines.append(
            f"Beside them every receiver writes {swarm.rebaseline} a group by itself: {more:,} more."
        )
    lines.append(f"The run: {recipe.rounds} rounds, {total * recipe.rounds:,} completions, one step a round.")
    return lines


def _given(prompts: str) -> str:
    return "given by the beacon" if prompts == "assigned" else "which it chooses"


def trust(recipe: Recipe) -> list[str]:
    """The defences in force, what foreign completions count, and who lies."""
    swarm, lying = recipe.swarm, sorted(set(recipe.adversary.nodes))
    exact = recipe.policy.dtype == "float32"
    names = [
        one.type + (f" ({one.on_reject})" if one.on_reject else "")
        for one in defences_in_force(swarm, worked_sums=recipe.rationales_by_rule, exact=exact)
    ]
    policies = "one policy" if swarm.one_policy else "policies of their own; text travels, not tokens"
    lines = [
        f"Nodes: {swarm.nodes}, {swarm.topology}, with {policies}.",
        f"Defences: {', '.join(names) or 'none, every completion is believed'}.",
        f'Foreign completions: foreign_weight = "{swarm.foreign_weight}".',
    ]
    return [*lines, _liars(recipe, lying) if lying else "Liars: none."]


def _liars(recipe: Recipe, lying: list[int]) -> str:
    spec = recipe.adversary
    told = f"Liars: {', '.join(f'node-{node}' for node in lying)} ({len(lying) / recipe.swarm.nodes:.1%}) by "
    told += f"{spec.completions.type}, {'with' if spec.completions.oracle else 'without'} the answers."
    return told + (" A control without them is trained first: twice the time." if spec.control else "")


def memory_of_swarm(recipe: Recipe, sizes: Sizes) -> list[Line]:
    """What the replicas hold, as if all had the policy of [policy]."""
    many, trained = replicas(recipe), sizes.trainable
    moments = Line("two moments", many * trained * 8, f"{many} × {trained:,} × 8 B")
    return [*policies(recipe, sizes, many, many), moments]


def disk_of_swarm(recipe: Recipe, sizes: Sizes, policy: tuple[int, str], kept: int) -> list[Line]:
    """`policy`: bytes of an exported one, and how they come about. `kept`: rounds."""
    many, trained = replicas(recipe), sizes.trainable
    a_round = many * trained * _STATE
    honest = recipe.swarm.nodes - len(set(recipe.adversary.nodes))
    policies = 2 * (1 if recipe.swarm.one_policy else honest)
    lines = [
        Line("one round", a_round, f"{many} × {trained:,} × {_STATE} B (values and two moments)"),
        Line("rounds/ at its peak", (kept + 1) * a_round, f"{kept} kept + 1 being written"),
        Line("policy/, last and best", policies * policy[0], f"{policies} × {policy[1]}"),
    ]
    if recipe.adversary.control:
        total = sum(line.size for line in lines[1:])
        lines.append(Line("control/", total, "the same once more"))
    return lines


def traffic_of_swarm(recipe: Recipe) -> list[Line]:
    """At most: as if every completion were as long as it may be."""
    swarm, tokens = recipe.swarm, recipe.grpo.max_new_tokens
    token = _CLAIMED if swarm.one_policy else _WRITTEN
    bundle = slots(recipe) * (tokens * token + _HEADER)
    how = f"{slots(recipe)} completions × ({tokens} tokens × {token} B + {_HEADER} B), at most"
    whole = swarm.nodes * bundle * recipe.rounds
    return [
        Line("a node sends, a round", bundle, how),
        Line("a node receives, a round", (swarm.nodes - 1) * bundle, f"{swarm.nodes - 1} × {human(bundle)}"),
        Line("all nodes send, whole run", whole, f"{swarm.nodes} nodes × {recipe.rounds} rounds"),
    ]
