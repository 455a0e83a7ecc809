"""Checks that need no model: assignment, policy, length, and what is claimed."""

from __future__ import annotations

import pytest

from hanse.recipe.swarm import AssignmentDefence, ClaimsDefence, LengthDefence, PolicyDefence
from hanse.swarm.assignment import Assignment
from hanse.swarm.defences import DEFENCES
from swarm.made import BEACON, END, LIMIT, owners, sent, verdicts, view

HONEST = [sent(0, 0), sent(0, 1), sent(1, 2), sent(1, 3)]
assignment, policy, length, claims = (DEFENCES[n] for n in ("assignment", "policy", "length", "claims"))


def test_assigned_slots_pass():
    assert verdicts(assignment, AssignmentDefence(), view(HONEST)) == [False] * 4


@pytest.mark.parametrize(
    "wrong",
    [sent(1, 0), sent(1, 7), sent(5, 3), sent(1, 2, problem="q")],
    ids=["another's slot", "no slot", "no node", "another problem"],
)
def test_what_is_not_assigned_is_rejected(wrong):
    found = verdicts(assignment, AssignmentDefence(complete=False), view([*HONEST, wrong]))
    assert found == [False] * 4 + [True]


def test_the_stream_is_the_beacons():
    made = [*HONEST[:3], sent(1, 3, seed=1)]
    assert verdicts(assignment, AssignmentDefence(), view(made)) == [False] * 3 + [True]


def test_a_slot_is_answered_once():
    twice = [*HONEST[:3], sent(1, 3), sent(1, 3, (7, END))]
    assert verdicts(assignment, AssignmentDefence(), view(twice)) == [False] * 3 + [True] * 2


def test_who_holds_back_counts_not_at_all():
    assert verdicts(assignment, AssignmentDefence(), view(HONEST[:3])) == [False, False, True]
    assert verdicts(assignment, AssignmentDefence(complete=False), view(HONEST[:3])) == [False] * 3


def test_who_spoils_what_it_would_hold_back_counts_not_at_all():
    """Whatever an earlier defence has rejected is as good as not sent."""
    left = [True, True, False, True]
    assert verdicts(assignment, AssignmentDefence(), view(HONEST), left) == [False, False, True, True]
    assert verdicts(assignment, AssignmentDefence(missing=0.5), view(HONEST), left) == [False] * 4
    assert verdicts(assignment, AssignmentDefence(missing=0.4), view(HONEST), left)[3]
    assert verdicts(assignment, AssignmentDefence(complete=False), view(HONEST), left) == [False] * 4


def test_a_whole_problem_held_back_is_missed():
    two = owners(problems=("p", "q"))
    assert verdicts(assignment, AssignmentDefence(), view(HONEST[:2], assignment=two)) == [True] * 2
    other = Assignment(BEACON, {k: v for k, v in two.owners.items() if k[0] == "p"})
    assert verdicts(assignment, AssignmentDefence(), view(HONEST, assignment=other)) == [False] * 4


def test_policies_by_age():
    made = [sent(0, 0, policy=p) for p in ("now", "before", "long ago", "unknown")]
    seen = view(made)
    assert verdicts(policy, PolicyDefence(), seen) == [False, True, True, True]
    assert verdicts(policy, PolicyDefence(staleness=1), seen) == [False, False, True, True]
    assert verdicts(policy, PolicyDefence(staleness=2), seen) == [False, False, False, True]
    assert verdicts(policy, PolicyDefence(staleness=3), seen) == [False, False, False, True]


def test_a_policy_that_came_back_counts_as_the_newest():
    assert verdicts(policy, PolicyDefence(), view([sent(0, 0)], policies=["now", "x", "now"])) == [False]


def test_lengths_and_ends():
    full = list(range(4, 4 + LIMIT))
    rows = {
        (5, END): False,
        (END,): False,
        tuple(full): False,  # cut at the limit
        tuple(full[:-1]): True,  # cut before the limit
        (*full[:-1], END): False,
        (*full, END): True,  # beyond the limit
        (5, END, 6, END): True,  # goes on behind its end
        (END, END): True,
        (5, END, 6): True,
    }
    found = verdicts(length, LengthDefence(), view([sent(0, 0, ids) for ids in rows]))
    assert found == list(rows.values())


def test_an_end_that_is_claimed_must_be_there():
    full = tuple(range(4, 4 + LIMIT))
    made = [sent(0, 0, full, finish="stop"), sent(0, 0, (5, END), finish="length")]
    assert verdicts(length, LengthDefence(), view(made)) == [True, True]


def test_a_limit_of_its_own():
    """Shorter than what the sampler may draw: nobody honest sends one that was cut there."""
    made = [sent(0, 0, (5, 6, 7)), sent(0, 0, (5, 6, 7, 8)), sent(0, 0, (5, 6, END))]
    assert verdicts(length, LengthDefence(limit=3), view(made)) == [True, True, False]


def test_of_text_only_the_most_is_known():
    made = [sent(0, 0, (5, 6), text="ab"), sent(0, 0, (5, 6), text="ab")]
    seen = view(made, ids=[(5, 6), (5,) * (LIMIT + 1)])
    assert verdicts(length, LengthDefence(), seen) == [False, True]


def test_claimed_log_probs():
    made = [
        sent(0, 0, (5, 6, END), logp=(-0.5, -0.5, -0.5)),
        sent(0, 1, (5, 6, END), logp=(-0.5, -0.5, -0.36)),  # 0.14 / 3
        sent(0, 2, (5, 6, END), logp=(-0.5, -0.5, -0.34)),  # 0.16 / 3
        sent(0, 3, (5, END), logp=(-0.5, -0.7)),
        sent(0, 4, (5, 6, END)),  # claims nothing
        sent(0, 5, (5, 6, END), text="ab"),
    ]
    assert verdicts(claims, ClaimsDefence(), view(made)) == [False, False, True, True, True, True]
