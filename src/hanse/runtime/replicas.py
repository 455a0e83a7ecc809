"""Replicas of a swarm in a checkpoint: safetensors and JSON, nothing executable."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hanse.grpo.learner import LearnerState
from hanse.grpo.optimiser import Moments
from hanse.runtime.state import load_tensors, save_tensors
from hanse.swarm.replica import Replica, ReplicaState


def save_replica(path: Path, replica: Replica) -> None:
    """Write a replica's state between rounds."""
    learner, state = replica.learner.state, replica.state
    tensors = {
        "master": replica.policy.parameters.master,
        "first": learner.moments.first,
        "second": learner.moments.second,
    }
    fields = {
        "beacon": state.beacon,
        "digests": state.digests,
        "memory": state.memory,
        "step": learner.step,
        "updates": learner.moments.updates,
        "non_finite_streak": learner.non_finite_streak,
        "micro_batch": learner.micro_batch,
        "counters": dict(learner.counters),
    }
    save_tensors(path, tensors, fields)


def load_replica(path: Path, replica: Replica) -> None:
    """Raises RunError where the file is missing or damaged."""
    tensors, fields = load_tensors(path)
    device = replica.policy.device
    replica.policy.load(tensors["master"].to(device))
    replica.learner.state = LearnerState(
        moments=Moments(tensors["first"].to(device), tensors["second"].to(device), fields["updates"]),
        step=fields["step"],
        non_finite_streak=fields["non_finite_streak"],
        micro_batch=fields["micro_batch"],
        counters=Counter(fields["counters"]),
    )
    replica.state = ReplicaState(fields["beacon"], fields["digests"], fields["memory"])
