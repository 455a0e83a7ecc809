"""Shaping of one step's groups: consensus, then DRA, then BoT, then advantages. Groups keep raw rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hanse.grpo.advantages import informative
from hanse.grpo.shaping import bot, dra
from hanse.grpo.shaping.consensus.coverage import (
    coverage,
    process_reward,
    tokens_per_node,
    weight_of_process,
)
from hanse.grpo.shaping.consensus.nodes import question_of
from hanse.grpo.shaping.consensus.store import load_nodes
from hanse.grpo.shaping.embedders import embedder_of
from hanse.grpo.shaping.judges import Worked, judge_of
from hanse.grpo.shaping.steps import Decode, pieces, step_spans, token_spans
from hanse.policy.rollout import Group
from hanse.recipe.shaping import BotSpec, ConsensusSpec, DraSpec, ShapingSpec

Metrics = dict[str, float]


@dataclass(frozen=True)
class Shaped:
    """`rewards_PG`: what advantages are made of, NaN = unscored. `metrics`: under `shaping/`."""

    rewards_PG: Tensor
    metrics: Metrics


def prepare(spec: ShapingSpec) -> None:
    """Load what shaping needs. Raises RecipeError for a file, a package or a model that is not there."""
    if spec.consensus.enabled:
        load_nodes(str(spec.consensus.nodes))
    if spec.dra.enabled:
        embedder_of(spec.dra)


def shape_rewards(
    groups: Sequence[Group],
    texts_PG: Sequence[Sequence[str]],
    rewards_PG: Tensor,
    spec: ShapingSpec,
    progress: float,
) -> Shaped:
    """The groups' rewards after consensus and DRA. `progress`: the share of the run's steps that is done."""
    shaped = Shaped(rewards_PG, {})
    if spec.consensus.enabled:
        shaped = _by_consensus(groups, texts_PG, rewards_PG, spec.consensus, progress)
    if spec.dra.enabled:
        diverse = _by_dra(texts_PG, shaped.rewards_PG, spec.dra)
        shaped = Shaped(diverse.rewards_PG, shaped.metrics | diverse.metrics)
    return shaped


def _by_consensus(
    groups: Sequence[Group],
    texts_PG: Sequence[Sequence[str]],
    rewards_PG: Tensor,
    spec: ConsensusSpec,
    progress: float,
) -> Shaped:
    """A problem without nodes keeps its rewards."""
    found = load_nodes(str(spec.nodes))
    weight = weight_of_process(spec.alpha, spec.curriculum, progress, spec.switch_at)
    mixed, rates, costs, with_nodes = rewards_PG.clone(), list[float](), list[float](), 0
    for p, (group, texts) in enumerate(zip(groups, texts_PG, strict=True)):
        nodes = found[group.problem.id].nodes if group.problem.id in found else ()
        if not nodes:
            continue
        with_nodes += 1
        question = question_of(group.problem)
        for i, (text, length) in enumerate(zip(texts, group.lengths_G.tolist(), strict=True)):
            covered = coverage(nodes, text, question)
            mixed[p, i] = process_reward(float(rewards_PG[p, i]), covered.guarded(spec.dump_limit), weight)
            rates.append(covered.rate)
            costs.append(tokens_per_node(length, covered.hits))
    metrics = {"shaping/with_nodes": with_nodes / len(groups), "shaping/process_weight": weight}
    return Shaped(mixed, metrics | _means({"shaping/ncr": rates, "shaping/tpn": costs}))


def _by_dra(texts_PG: Sequence[Sequence[str]], rewards_PG: Tensor, spec: DraSpec) -> Shaped:
    """Each group by itself: what other prompts' completions say is nothing to it."""
    embeddings = embedder_of(spec)([text for texts in texts_PG for text in texts])
    divided, factors, alike = rewards_PG.clone(), list[float](), list[float]()
    differ = informative(rewards_PG).tolist()
    for p, own in enumerate(embeddings.split(len(texts_PG[0]))):
        scored = ~rewards_PG[p].isnan()
        similar = dra.similarities(own)
        divisors = dra.divisors(similar, scored)
        members = int(scored.sum())
        if members > 1:
            alike.append(float((divisors[scored] - 1).mean()) / (members - 1))
        if spec.skip_equal and not differ[p]:
            continue
        divided[p] = dra.adjusted(
            rewards_PG[p],
            divisors,
            positive_only=spec.rewards == "positive",
            normalise=spec.normalise,
        )
        touched = (divided[p] != rewards_PG[p]) & scored
        factors += (divided[p] / rewards_PG[p])[touched].tolist()
    means = _means({"shaping/dra_factor": factors, "shaping/similarity": alike})
    return Shaped(divided, {"shaping/dra_equal_groups": 1 - sum(differ) / len(differ)} | means)


def token_credit(
    groups: Sequence[Group],
    texts_PG: Sequence[Sequence[str]],
    rewards_PG: Tensor,
    spec: BotSpec,
    decode: Decode,
    *,
    scaled: bool,
) -> Metrics:
    """Write BoT's advantages of tokens into the groups, and their means beside them; return metrics."""
    width = max(g.tokens_GT.shape[1] for g in groups)
    mask = torch.zeros((*rewards_PG.shape, width), dtype=torch.bool)
    for p, group in enumerate(groups):
        mask[p, :, : group.tokens_GT.shape[1]] = group.mask_GT.cpu()
    local, metrics = _local_rewards(groups, texts_PG, spec, decode, width)
    credit = bot.token_advantages(
        spec.global_weight * rewards_PG, spec.local_weight * local, mask, scaled=scaled
    )
    means = credit.sum(-1) / mask.sum(-1).clamp(min=1)
    for p, group in enumerate(groups):
        group.advantages_G = means[p]
        group.advantages_GT = credit[p, :, : group.tokens_GT.shape[1]]
    return metrics


def _local_rewards(
    groups: Sequence[Group], texts_PG: Sequence[Sequence[str]], spec: BotSpec, decode: Decode, width: int
) -> tuple[Tensor, Metrics]:
    """S_t of every token, float64, shape (P, G, T). A completion without a usable verdict has none."""
    local = torch.zeros((len(groups), groups[0].size, width), dtype=torch.float64)
    if spec.local_weight == 0:
        return local, {}
    spans = [[step_spans(text, spec.within) for text in texts] for texts in texts_PG]
    worked = [
        Worked(group.problem.prompt, tuple(text[s.start : s.stop] for s in own))
        for group, texts, row in zip(groups, texts_PG, spans, strict=True)
        for text, own in zip(texts, row, strict=True)
    ]
    judged = judge_of(spec)(worked)
    ids_PG = [group.token_ids_G() for group in groups]
    piece_of = pieces([ids for row in ids_PG for ids in row], decode)
    for p, row in enumerate(ids_PG):
        for i, ids in enumerate(row):
            given = judged[p * len(row) + i]
            if given:
                places = token_spans(ids, texts_PG[p][i], spans[p][i], piece_of, decode)
                local[p, i] = bot.spread_over(places, bot.settled(given, spec.after_error), width)
    return local, _verdict_metrics(judged)


def _verdict_metrics(judged_N: Sequence[list[int] | None]) -> Metrics:
    known = [given for given in judged_N if given is not None]
    flat = [verdict for given in known for verdict in given]
    rates = _means(
        {
            "shaping/steps": [float(len(given)) for given in known],
            "shaping/right_steps": [float(verdict > 0) for verdict in flat],
            "shaping/wrong_steps": [float(verdict < 0) for verdict in flat],
        }
    )
    return rates | {"shaping/unjudged": 1 - len(known) / len(judged_N)}


def mass_of_equal_groups(groups: Sequence[Group], rewards_PG: Tensor) -> Metrics:
    """The share of all advantage, in absolute value, that groups of equal raw rewards have: what shaping
    alone tells apart."""
    sizes = torch.tensor([_mass(group) for group in groups], dtype=torch.float64)
    total = float(sizes.sum())
    equal = float(sizes[~informative(rewards_PG)].sum())
    return {"shaping/mass_of_equal_groups": equal / total if total > 0 else 0.0}


def _mass(group: Group) -> float:
    if group.advantages_GT is not None:
        lengths = group.lengths_G.cpu().clamp(min=1)
        return float((group.advantages_GT.abs().sum(-1) / lengths).sum())
    assert group.advantages_G is not None
    return float(group.advantages_G.abs().sum())


def _means(values: Mapping[str, Sequence[float]]) -> Metrics:
    return {name: sum(some) / len(some) for name, some in values.items() if some}
