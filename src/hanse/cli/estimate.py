"""What a run will need: memory, disk and traffic, from the recipe and the policy's size alone."""

from __future__ import annotations

from dataclasses import dataclass

from hanse.cli.sizes import Sizes
from hanse.recipe.adapters import is_packed, takes_base_along
from hanse.recipe.model import Recipe
from hanse.recipe.secure import word_bytes
from hanse.recipe.sums import prompts_per_update, tiny_lengths

_WIDTH = {"float32": 4, "bfloat16": 2}
_LOGITS = 256 << 20
"""Without grpo.micro_batch, the learner takes as many completions at once as fit into this."""
_ROWS, _CHOICES = 1024, 64 << 20
"""Without grpo.sample_batch, the sampler decodes this many completions, or vocabulary entries, at once."""
_PROMPT_GUESS = 256
KEPT_ROUNDS = 2


@dataclass(frozen=True)
class Line:
    """One quantity in bytes, and how it came about."""

    what: str
    size: int
    how: str


def learners(recipe: Recipe) -> int:
    """How many parties train: one in central mode, and where clients only score."""
    return 1 if recipe.mode in ("central", "reward-only") else recipe.partition.clients


def here(recipe: Recipe) -> int:
    """How many of them keep their state on one machine."""
    return 1 if recipe.runtime.type == "flower" else learners(recipe)


def exchange_width(recipe: Recipe) -> int:
    """Bytes of one exchanged value. "auto": as the policy computes where all of it trains, else float32."""
    return _WIDTH[recipe.exchange_dtype]


def memory(recipe: Recipe, sizes: Sizes) -> list[Line]:
    """The large tenants of memory while training."""
    if recipe.mode == "swarm":
        from hanse.cli.swarm import memory_of_swarm

        return [*memory_of_swarm(recipe, sizes), _logits(recipe, sizes, 1), _cache(recipe, sizes, 1)]
    if recipe.mode == "reward-model":
        from hanse.cli.reward_model import memory_of_reward_model

        return memory_of_reward_model(recipe, sizes)
    if recipe.mode == "reward-only":
        from hanse.cli.reward_only import memory_of_reward_only

        return [*memory_of_reward_only(recipe, sizes), _logits(recipe, sizes, 1), _cache(recipe, sizes, 1)]
    clients, trained = here(recipe), sizes.trainable
    workers = min(recipe.runtime.workers, clients)
    hosts = workers if workers == 1 else workers + 1
    state, what_state = client_state(recipe)
    kept = f"{clients} × 2 × {trained:,} × {state} B (this round's and the last: {what_state})"
    servers = clients if recipe.mode == "local" else 1
    server, what_server = server_state(recipe)
    held = f"{servers} × {trained:,} × {server} B{what_server}"
    return [
        *policies(recipe, sizes, hosts, workers),
        Line("state of the learners", clients * 2 * trained * state, kept),
        Line("server's values", servers * trained * server, held),
        _logits(recipe, sizes, workers),
        _cache(recipe, sizes, workers),
    ]


def policies(recipe: Recipe, sizes: Sizes, hosts: int, workers: int) -> list[Line]:
    """What processes hold of the policy: all to compute with it, workers to train it."""
    policy, trained = recipe.policy, sizes.trainable
    width = _WIDTH[policy.dtype]
    base = sizes.total if policy.train == "full" else sizes.total + trained
    start = 8 if width == 4 else 12 + width
    what = "gradient, start values" if width == 4 else "float32 masters, gradients, start values"
    lines = [
        Line("weights", hosts * base * width, f"{_times(hosts)}{base:,} × {width} B"),
        Line(what, hosts * trained * start, f"{_times(hosts)}{trained:,} × {start} B"),
    ]
    if recipe.grpo.beta > 0 and policy.train == "full":
        how = f"{_times(workers)}{trained:,} × {width} B"
        lines.append(Line("reference policy", workers * trained * width, how))
    if recipe.federation_in_force.lifts:
        from hanse.cli.offset import memory_of_offset

        lines.append(memory_of_offset(recipe, sizes, hosts, width))
    return lines


def client_state(recipe: Recipe) -> tuple[int, str]:
    """Bytes a value that a learner carries from round to round, and what they are."""
    spec, width = recipe.federation_in_force, exchange_width(recipe)
    partial = spec.budget.fraction is not None or spec.budget.bits is not None
    parts = {"two moments": 8}
    if (spec.residual == "keep" and width < 4) or (partial and spec.budget.error_feedback == "start"):
        parts["a residual"] = 4
    if partial and spec.budget.error_feedback == "upload":
        parts["unsent changes"] = 4
    if spec.sends_patches(recipe.exchange_dtype):
        parts["the base of patches"] = width
    if spec.local == "scaffold":
        parts["a control variate"] = 4
    return sum(parts.values()), ", ".join(parts)


def server_state(recipe: Recipe) -> tuple[int, str]:
    """Bytes a value that a server keeps from round to round, and what beside the values."""
    spec = recipe.federation_in_force
    tensors = {"plain": 0, "adam": 2, "coherent": 2}.get(spec.optimizer, 1)
    parts = {f'"{spec.optimizer}"': 4 * tensors, f'"{spec.local}"': 4 * _vectors_down(recipe)}
    if spec.sends_patches(recipe.exchange_dtype):
        parts["the base of patches"] = exchange_width(recipe)
    held = [what for what, size in parts.items() if size]
    return 4 + sum(parts.values()), f" (with {', '.join(held)})" if held else ""


def _vectors_down(recipe: Recipe) -> int:
    """Float32 vectors as long as the values that the local method adds to a broadcast."""
    return int(recipe.federation_in_force.local in ("scaffold", "fedadamw", "shared-moment"))


def _vectors_up(recipe: Recipe) -> int:
    """The same of an upload."""
    return int(recipe.federation_in_force.local in ("scaffold", "shared-moment"))


def _logits(recipe: Recipe, sizes: Sizes, workers: int) -> Line:
    grpo = recipe.grpo
    row = grpo.max_new_tokens * sizes.vocabulary * 4
    rows = grpo.micro_batch or max(1, _LOGITS // row)
    if rows > grpo.group_size:
        rows -= rows % grpo.group_size
    rows = min(rows, prompts_per_update(recipe) * grpo.group_size)
    how = f"{_times(workers)}{rows} completions × {grpo.max_new_tokens} × {sizes.vocabulary:,} × 4 B × 2"
    return Line("logits and their gradient", 2 * workers * rows * row, how)


def _cache(recipe: Recipe, sizes: Sizes, workers: int) -> Line:
    grpo, width = recipe.grpo, _WIDTH[recipe.policy.dtype]
    lengths = tiny_lengths(recipe.task)
    prompt = grpo.max_prompt_tokens or (lengths[0] if lengths else _PROMPT_GUESS)
    most = grpo.sample_batch or max(grpo.group_size, min(_ROWS, _CHOICES // sizes.vocabulary))
    rows = min(most, prompts_per_update(recipe) * grpo.group_size)
    tokens = prompt + grpo.max_new_tokens
    how = f"{_times(workers)}{rows} completions × {tokens} tokens × {sizes.cache_width:,} × {width} B"
    return Line("sampling cache", workers * rows * tokens * sizes.cache_width * width, how)


def disk(recipe: Recipe, sizes: Sizes) -> list[Line]:
    """What the run folder grows to: two complete rounds are kept, and a third while it is written."""
    if recipe.mode == "swarm":
        from hanse.cli.swarm import disk_of_swarm

        return disk_of_swarm(recipe, sizes, _policy(recipe, sizes), KEPT_ROUNDS)
    if recipe.mode == "reward-model":
        from hanse.cli.reward_model import disk_of_reward_model

        return disk_of_reward_model(recipe, sizes, _policy(recipe, sizes), KEPT_ROUNDS)
    if recipe.mode == "reward-only":
        from hanse.cli.reward_only import disk_of_reward_only

        return disk_of_reward_only(recipe, sizes, _policy(recipe, sizes), KEPT_ROUNDS)
    clients, trained = here(recipe), sizes.trainable
    servers = clients if recipe.mode == "local" else 1
    state, kept = client_state(recipe)
    server, _ = server_state(recipe)
    a_round = clients * trained * state + servers * trained * server
    how = f"{clients} × {trained:,} × {state} B ({kept}) + {servers} × {trained:,} × {server} B"
    if recipe.federation_in_force.lifts:
        from hanse.cli.offset import stored_offset

        stored, how_stored = stored_offset(recipe, sizes)
        a_round, how = a_round + stored, how + how_stored
    policies = 2 * (clients if recipe.mode == "local" or recipe.federation_in_force.personal else 1)
    one, how_one = _policy(recipe, sizes)
    return [
        Line("one round", a_round, how),
        Line("rounds/ at its peak", (KEPT_ROUNDS + 1) * a_round, f"{KEPT_ROUNDS} kept + 1 being written"),
        Line("policy/, last and best", policies * one, f"{policies} × {how_one}"),
    ]


def _policy(recipe: Recipe, sizes: Sizes) -> tuple[int, str]:
    """One exported policy: a model, or an adapter and perhaps a copy of its base."""
    policy = recipe.policy
    width, trained = _WIDTH[policy.dtype], sizes.trainable
    if policy.train == "full" or recipe.federation_in_force.lifts:
        return sizes.total * width, f"{sizes.total:,} × {width} B"
    if not takes_base_along(policy):
        return trained * width, f"{trained:,} × {width} B"
    stored = 2 if policy.type == "hf" and is_packed(policy.path) else width
    adapter, base = f"{trained:,} × {width} B", f"{sizes.total:,} × {stored} B"
    return trained * width + sizes.total * stored, f"({adapter} + base/ of {base})"


def traffic(recipe: Recipe, sizes: Sizes) -> list[Line]:
    """Bytes that travel, as if every value did: how many change is not known before training. None where
    one party trains alone."""
    if recipe.mode == "swarm":
        from hanse.cli.swarm import traffic_of_swarm

        return traffic_of_swarm(recipe)
    if recipe.mode == "reward-model":
        from hanse.cli.reward_model import traffic_of_reward_model

        return traffic_of_reward_model(recipe, sizes)
    if recipe.mode == "reward-only":
        from hanse.cli.reward_only import traffic_of_reward_only

        return traffic_of_reward_only(recipe)
    if recipe.mode != "federated":
        return []
    up, how_up = _one_way(recipe, sizes, _vectors_up(recipe))
    down, how_down = _one_way(recipe, sizes, _vectors_down(recipe))
    if recipe.federation.sends_patches(recipe.exchange_dtype) or recipe.federation.budget.bits is not None:
        how_up += _less(recipe)
        how_down += "; at most: patches hold what changed"
    if recipe.federation.secure.enabled:
        up, how_up = _masked(recipe, sizes)
    if recipe.federation.lifts:
        from hanse.cli.offset import sent_offset

        lifted, how_lifted = sent_offset(recipe, sizes)
        down, how_down = down + lifted, how_down + how_lifted
    how = f"{recipe.rounds} rounds" if up != down else f"2 × {recipe.rounds} rounds"
    whole, answers = (up + down) * recipe.rounds, _answers(recipe)
    if answers:
        steps = recipe.federation.public.steps(recipe.rounds)
        whole, how = whole + steps * sum(line.size for line in answers), f"{how}, answers {steps} times"
    return [
        Line("up, a round", up, how_up),
        Line("down, a round", down, how_down),
        *answers,
        Line("both, whole run", whole, how),
    ]


def _answers(recipe: Recipe) -> list[Line]:
    """Those to public problems that travel."""
    if not recipe.federation.public.on or recipe.federation.public.most == 0:
        return []
    from hanse.cli.public import traffic_of_public

    return traffic_of_public(recipe)


def participants(recipe: Recipe) -> int:
    """Clients that take part in a round."""
    share = recipe.federation.participation
    return max(1, round(share * recipe.partition.clients))


def _one_way(recipe: Recipe, sizes: Sizes, vectors: int) -> tuple[int, str]:
    clients, width = participants(recipe), exchange_width(recipe)
    bytes_each = width + 4 * vectors
    of = f" of {recipe.partition.clients}" if clients != recipe.partition.clients else ""
    extra = f" + {4 * vectors} B for {recipe.federation.local}" if vectors else ""
    each = f"({width} B{extra})" if vectors else f"{width} B"
    return clients * sizes.trainable * bytes_each, f"{clients}{of} clients × {sizes.trainable:,} × {each}"


def _masked(recipe: Recipe, sizes: Sizes) -> tuple[int, str]:
    """Uploads of a secure sum: noise, so every entry travels, and some kilobytes of keys and shares."""
    clients = participants(recipe)
    width = word_bytes(recipe.federation.secure.bits, clients)
    how = f"{clients} clients × {sizes.trainable:,} × {width} B (masked), keys and shares beside them"
    return clients * sizes.trainable * width, how


def _less(recipe: Recipe) -> str:
    budget = recipe.federation.budget
    parts = ["at most: only what changed is sent"]
    if budget.fraction is not None:
        parts.append(f"{100 * budget.fraction:g} % of it")
    if budget.bits is not None:
        parts.append(f"in {budget.bits} bits and its place")
    return "; " + ", ".join(parts)


def _times(workers: int) -> str:
    return f"{workers} processes × " if workers > 1 else ""


def human(size: int) -> str:
    """Bytes for people: 1.5 GB."""
    value, units = float(size), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 1000 and unit != "TB":
        value, unit = value / 1000, next(units)
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
