"""A child process that runs reward functions: `python -m hanse.tasks.scoring.worker`. No torch, no pickle.

It takes away what it does not need (memory, network, its own descendants' independence), imports the
functions, and then answers one request after the other until its scorer goes away.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hanse.errors import RecipeError
from hanse.tasks.rewards.batch import Batch, Failure, attempt
from hanse.tasks.rewards.resolve import Reward, RewardSource, resolve
from hanse.tasks.scoring import frames, sandbox


def main(arguments: Sequence[str]) -> None:
    """`arguments`: descriptors to read requests from and write replies to, parent's id, memory in MiB."""
    requests, replies, parent, memory_mb = map(int, arguments)
    for fd in (requests, replies):
        os.set_inheritable(fd, False)
    sandbox.die_with_parent()
    if os.getppid() != parent:
        return
    isolation = _confine((requests, replies), memory_mb)
    try:
        rewards = [resolve(RewardSource(**source)) for source in frames.read(requests, frames.MAX_REQUEST)]
    except RecipeError as error:
        frames.write(replies, frames.encode({"refused": [error.field, error.problem, error.remedy]}))
        return
    hello = {"isolation": isolation, "needs_ids": [reward.needs_ids for reward in rewards]}
    frames.write(replies, frames.encode(hello))
    _serve(requests, replies, rewards)


def _confine(protocol: tuple[int, int], memory_mb: int) -> dict[str, bool]:
    namespaces, frozen = sandbox.probe()
    if namespaces:
        sandbox.enter_namespaces()
        sandbox.die_with_parent()
        sandbox.fork_as_init(close=protocol)
    memory = sandbox.limit(memory_mb)
    sandbox.hide_memory()
    return {"memory": memory, "network": namespaces, "descendants": namespaces, "files_of_code": frozen}


def _serve(requests: int, replies: int, rewards: Sequence[Reward]) -> None:
    home = os.getpid()
    while True:
        try:
            request = frames.read(requests, frames.MAX_REQUEST)
        except EOFError:
            return
        reply = {"id": request["id"], **_answer(rewards, request)}
        if os.getpid() != home:  # a reward function forked and let the fork return
            os._exit(0)
        frames.write(replies, frames.encode(reply))


def _answer(rewards: Sequence[Reward], request: Mapping[str, Any]) -> dict[str, Any]:
    batch = Batch(request["prompts"], request["completions"], request["completion_ids"], request["columns"])
    _seed(request["seed"])
    result = attempt(rewards[request["function"]].call, batch)
    if isinstance(result, Failure):
        return {"reason": result.reason, "message": result.message}
    return {"values": result}


def _seed(seed: int) -> None:
    """Functions that draw random numbers draw the same ones in every worker."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)


if __name__ == "__main__":
    main(sys.argv[1:])
