"""Replicas of a swarm in a checkpoint: safetensors and JSON, nothing executable."""

from __future__ import annotations

from pathlib import Path

from hanse.runtime.state import learner_fields, learner_of, learner_tensors, load_tensors, save_tensors
from hanse.swarm.replica import Replica, ReplicaState


def save_replica(path: Path, replica: Replica) -> None:
    """Write a replica's state between rounds."""
    learner, state = replica.learner.state, replica.state
    tensors = {"master": replica.policy.parameters.master, **learner_tensors(learner)}
    own = {"beacon": state.beacon, "digests": state.digests, "memory": state.memory}
    save_tensors(path, tensors, {**own, **learner_fields(learner)})


def load_replica(path: Path, replica: Replica) -> None:
    """Raises RunError where the file is missing or damaged."""
    found, fields = load_tensors(path)
    tensors = {name: tensor.to(replica.policy.device) for name, tensor in found.items()}
    replica.policy.load(tensors["master"])
    replica.learner.state = learner_of(tensors, fields)
    replica.state = ReplicaState(fields["beacon"], fields["digests"], fields["memory"])
