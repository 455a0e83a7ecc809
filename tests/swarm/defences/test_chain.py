from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import pad

from grpo.toys import RAGGED, make_policy, problems_of
from hanse.policy.readings import EDGE, read_completions
from hanse.policy.sampler import Sampler, Sampling
from hanse.recipe.swarm import (
    NEEDS_ONE_POLICY,
    DuplicatesDefence,
    JudgeDefence,
    LengthDefence,
    LengthsDefence,
    PolicyDefence,
    ReplayDefence,
    ReputationDefence,
    StepsDefence,
    SwarmSpec,
    TopKDefence,
)
from hanse.swarm.accounting import Standing
from hanse.swarm.assignment import horizontal
from hanse.swarm.defences import DEFENCES
from hanse.swarm.defences.base import View
from hanse.swarm.defences.chain import COARSE, Chain, build_chain
from hanse.swarm.delivery import Delivery, Tokens
from swarm.made import END, sent, view

ACCEPTED, ZERO, MASKED, DROPPED = (int(s) for s in Standing)
MADE = [sent(0, 0), sent(0, 1, policy="old"), sent(1, 2, (5, 6)), sent(1, 3)]


def test_each_defence_looks_at_what_is_left():
    """Slot 1 is stale and its logits are wrong: only the first of the two has rejected it."""
    chain = Chain([PolicyDefence(on_reject="mask"), ReplayDefence()])
    found = chain.inspect(view(MADE, replay=torch.tensor([0.0, 1.0, 0.0, 1.0]).unsqueeze(1)), {})
    assert found.standing_N.tolist() == [ACCEPTED, MASKED, ACCEPTED, DROPPED]
    assert found.rejected_by_N == [None, "policy", None, "replay"]
    assert found.counts == {"policy": 1, "replay": 1}
    assert found.scores["policy"].tolist() == [0, 4, 0, 0]
    assert found.scores["replay"].isnan().tolist() == [False, True, False, False]


@pytest.mark.parametrize(("on_reject", "standing"), [("zero", ZERO), ("mask", MASKED), ("drop", DROPPED)])
def test_standings_by_recipe(on_reject, standing):
    found = Chain([PolicyDefence(on_reject=on_reject)]).inspect(view(MADE), {})
    assert found.standing_N.tolist() == [ACCEPTED, standing, ACCEPTED, ACCEPTED]


def test_quarantine_takes_all_of_a_node_even_what_was_masked():
    """Node 1 cut a completion short of the limit; node 0 was masked for staleness and stays so."""
    specs = [PolicyDefence(on_reject="mask"), LengthDefence(on_reject="quarantine")]
    made = [*MADE, sent(1, 4, policy="old")]
    found = Chain(specs).inspect(view(made), {})
    assert found.standing_N.tolist() == [ACCEPTED, MASKED, DROPPED, DROPPED, DROPPED]
    assert found.rejected_by_N == [None, "policy", "length", "length", "policy"]


def test_defaults_of_what_becomes_of_a_reject():
    texts = ["hail"] * 4
    found = Chain([StepsDefence()]).inspect(view(MADE, texts=texts, rewards=[1, 0, 0, 1]), {})
    assert found.standing_N.tolist() == [MASKED, ACCEPTED, ACCEPTED, MASKED]
    strange = [*MADE, sent(1, 0)]
    found = build_chain(SwarmSpec()).inspect(view(strange), {})
    assert found.standing_N.tolist() == [DROPPED] * 5
    assert found.rejected_by_N == ["assignment-2", "policy", "assignment", "assignment", "assignment"]


def test_one_forward_pass_for_all_and_none_where_nobody_asks():
    calls = []
    seen = view(MADE)
    counting = replace(seen, read=lambda: calls.append(1) or seen.readings)
    Chain([PolicyDefence(), LengthDefence()]).inspect(counting, {})
    assert calls == []
    found = Chain([TopKDefence(), ReplayDefence(), TopKDefence()]).inspect(counting, {})
    assert calls == [1]
    assert found.forward_seconds > 0 and set(found.seconds) == {"top-k", "replay", "top-k-2"}


def test_memory_is_by_defence_and_plain():
    chain = Chain([LengthsDefence(), ReputationDefence(), ReputationDefence(evict_below=0.1)])
    first = chain.inspect(view(MADE), {})
    assert set(first.memory) == {"lengths", "reputation", "reputation-2"}
    second = chain.inspect(view(MADE), json.loads(json.dumps(first.memory)))
    assert second.memory["reputation"]["counts"] == {"0": [4, 0], "1": [4, 0]}
    assert len(second.memory["lengths"]["rounds"]) == 2


def test_among_others():
    found = Chain([PolicyDefence(), ReplayDefence()]).inspect(view(MADE), {}).among([5, 0, 3, 2], 6)
    assert found.standing_N.tolist() == [DROPPED, ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED]
    assert found.rejected_by_N == ["policy", None, None, None, None, None]
    assert found.scores["policy"].isnan().tolist() == [False, True, False, False, True, False]


def test_an_empty_round():
    empty = view(MADE[:1])
    empty = replace(
        empty,
        deliveries_N=[],
        problems_N=[],
        texts_N=[],
        tokens_NT=torch.zeros(0, 1, dtype=torch.int64),
        lengths_N=torch.zeros(0, dtype=torch.int64),
        terminated_N=torch.zeros(0, dtype=torch.bool),
        rewards_N=torch.zeros(0, dtype=torch.float64),
    )
    specs = [
        spec(url="http://127.0.0.1:1", model="m") if spec is JudgeDefence else spec()
        for spec in (
            PolicyDefence,
            LengthDefence,
            DuplicatesDefence,
            LengthsDefence,
            StepsDefence,
            JudgeDefence,
        )
    ]
    found = Chain(specs).inspect(empty, {})
    assert found.standing_N.shape == (0,) and found.counts == {}


def test_what_the_readings_must_allow_for():
    chain = Chain([TopKDefence(k=7), ReplayDefence(tolerance=0.2)])
    assert chain.top_k == 7 and chain.edge == 0.2
    assert Chain([ReplayDefence(tolerance=0)]).edge == EDGE and Chain([]).top_k is None


def test_chains_of_recipes():
    def types(**options) -> list[str]:
        spec = SwarmSpec(**options.pop("swarm", {}))
        return [defence.type for defence in build_chain(spec, **options).specs]

    assert types(swarm={"defences": "none"}) == []
    assert types() == ["assignment", "policy", "length", "replay", "assignment"]
    assert types(swarm={"defences": [TopKDefence()]}) == ["top-k"]
    several = {"topology": "vertical", "external": 2}
    assert types(swarm=several) == ["assignment", "length", "duplicates", "lengths"]
    assert types(swarm=several, worked_sums=True) == [
        "assignment",
        "length",
        "duplicates",
        "steps",
        "lengths",
    ]
    assert not set(types(swarm=several, worked_sums=True)) & NEEDS_ONE_POLICY
    *_, replay, _ = build_chain(SwarmSpec(), exact=False).specs
    assert replay.tolerance == COARSE
    assert set(DEFENCES) > NEEDS_ONE_POLICY


T, G, NODES = 8, 6, 3


def real_view(policy, tokens_by_slot=None) -> View:
    """A round of three nodes that hold `policy`; `tokens_by_slot` replaces what (problem, slot) sent."""
    sampling, names = Sampling(T, top_k=6), [f"p{i}" for i in range(len(RAGGED))]
    assigned = horizontal("beacon", names, G, range(NODES))
    seeds = [assigned.seed(name) for name in names]
    groups = Sampler(policy, sampling).sample(problems_of(), G, seeds)
    ids = {(g.problem.id, slot): row for g in groups for slot, row in enumerate(g.token_ids_G())}
    ids |= tokens_by_slot(ids) if tokens_by_slot else {}
    made = [
        Delivery(p, s, assigned.owners[p, s], assigned.seed(p), "now", _finish(row), Tokens(tuple(row)))
        for (p, s), row in ids.items()
    ]
    tokens = torch.stack([pad(torch.tensor(row), (0, T - len(row))) for row in ids.values()])
    problems = {p.id: p for p in problems_of()}
    return View(
        round=0,
        deliveries_N=made,
        problems_N=[problems[d.problem] for d in made],
        texts_N=[""] * len(made),
        tokens_NT=tokens,
        lengths_N=torch.tensor([len(row) for row in ids.values()]),
        terminated_N=torch.tensor([row[-1] == END for row in ids.values()]),
        rewards_N=torch.ones(len(made), dtype=torch.float64),
        sampling=sampling,
        assignment=assigned,
        policies=["now"],
        eos_ids=(END,),
        read=lambda: read_completions(
            policy,
            [g.prompt_ids for g in groups],
            tokens.view(len(names), G, T),
            seeds,
            torch.arange(G).expand(len(names), G),
            sampling,
        ),
    )


def _finish(row):
    return "stop" if row[-1] == END else "length"


@pytest.mark.parametrize("seed", range(5))
def test_honest_nodes_lose_nothing(seed: int):
    found = build_chain(SwarmSpec()).inspect(real_view(make_policy(seed)), {})
    assert found.counts == {} and (found.standing_N == ACCEPTED).all()
    assert found.figures == {"replay/sites": 0.0, "replay/tied": 0.0}


def test_the_default_chain_stops_what_a_node_did_not_sample(policy):
    """Node 2 (slots 4 and 5) sends a text of its own, and one of its longer samples twice (DoS)."""

    def lie(ids):
        longest = {p: max((ids[p, s] for s in (4, 5)), key=len) for p, s in ids if s == 4}
        return {(p, 4): [3, 4, 5, END] for p in longest} | {(p, 5): row for p, row in longest.items()}

    honest, lied = real_view(policy), real_view(policy, lie)
    same = (honest.tokens_NT == lied.tokens_NT).all(1)
    found = build_chain(SwarmSpec()).inspect(lied, {})
    assert not same.all() and same[lied.node_N == 2].any()
    assert [name == "replay" for name in found.rejected_by_N] == (~same).tolist()
    # What node 2 left as it was, it has chosen: it counts no more than the rest.
    assert ((found.standing_N == ACCEPTED) == (lied.node_N != 2)).all()
