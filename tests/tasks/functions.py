"""Reward functions of users, good and bad, for the scoring tests: `path = "…/functions.py:name"`."""

import asyncio
import contextlib
import ctypes
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time


def bad(completion):
    text = completion if isinstance(completion, str) else completion[0]["content"]
    return "bad" in text


def waits(completions, **kwargs):
    time.sleep(3)
    return [1.0] * len(completions)


def length(completions, **kwargs):
    return [float(len(completion)) for completion in completions]


def seen(prompts, completions, completion_ids, answer, level, **kwargs):
    """Everything it was given, as an error message."""
    given = [prompts, completions, completion_ids, answer, level, sorted(kwargs)]
    raise ValueError(json.dumps(given))


def lengths_of_ids(completion_ids):
    return [len(ids) for ids in completion_ids]


async def later(completions, **kwargs):
    await asyncio.sleep(0)
    return [0.25] * len(completions)


def not_applicable(completions, **kwargs):
    return [None if bad(completion) else 2.0 for completion in completions]


def kinds(completions, **kwargs):
    return [True, 3, None, float("nan"), float("inf"), 1.5][: len(completions)]


def raises(completions, **kwargs):
    if any(map(bad, completions)):
        raise RuntimeError("no \x1b[31mred\nlines")
    return [1.0] * len(completions)


def hangs(completions, **kwargs):
    while any(map(bad, completions)):
        pass
    return [1.0] * len(completions)


def catastrophe(completions, **kwargs):
    return [float(bool(re.fullmatch(r"(a+)+b", text))) for text in completions]


def eats_memory(completions, **kwargs):
    return [float(len(bytearray(8 << 30))) if bad(text) else 1.0 for text in completions]


def exits(completions, **kwargs):
    if any(map(bad, completions)):
        os._exit(0)
    return [1.0] * len(completions)


def leaves(completions, **kwargs):
    return sys.exit(3) if any(map(bad, completions)) else [1.0] * len(completions)


def segfaults(completions, **kwargs):
    return ctypes.string_at(0) if any(map(bad, completions)) else [1.0] * len(completions)


def prints(completions, **kwargs):
    print("garbage" * 1000)
    os.write(1, b"\x00\xff garbage")
    os.write(2, b"garbage")
    sys.stdin.read()
    return [1.0] * len(completions)


def write_to_protocol(data):
    """To whatever is open above the standard descriptors; in a worker, those of the protocol."""
    for fd in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(fd, data)


def babbles(completions, **kwargs):
    if any(map(bad, completions)):
        write_to_protocol(b"this is no frame at all")
    return [1.0] * len(completions)


def announces_gigabytes(completions, **kwargs):
    if any(map(bad, completions)):
        write_to_protocol(struct.pack(">I", 2**32 - 1) + b"x" * 100)
    return [1.0] * len(completions)


def nests_deeply(completions, **kwargs):
    if any(map(bad, completions)):
        body = b"[" * 60_000
        write_to_protocol(struct.pack(">I", len(body)) + body)
    return [1.0] * len(completions)


def forges(completions, **kwargs):
    if any(map(bad, completions)):
        body = json.dumps({"id": 10**6, "values": [1e9] * len(completions)}).encode()
        write_to_protocol(struct.pack(">I", len(body)) + body)
    return [1.0] * len(completions)


def too_few(completions, **kwargs):
    return [1.0] * (len(completions) - any(map(bad, completions)))


def words(completions, **kwargs):
    return ["one" if bad(completion) else 1.0 for completion in completions]


def forks_and_returns(completions, **kwargs):
    os.fork()
    return [1.0] * len(completions)


def dials(completions, **kwargs):
    try:
        socket.create_connection(("127.0.0.1", int(completions[0])), timeout=1).close()
    except OSError:
        return [0.0] * len(completions)
    return [1.0] * len(completions)


def spawns(completions, own_session=True, **kwargs):
    """A grandchild that outlives everybody, and then a hang."""
    code = "import time; time.sleep(300)"
    subprocess.Popen([sys.executable, "-c", code, completions[0]], start_new_session=own_session)
    while True:
        time.sleep(1)


def draws(completions, **kwargs):
    return [random.random() for _ in completions]


def group_mean(completions, **kwargs):
    """Needs group-mates: the mean length over the call's completions of the same prompt."""
    prompts = kwargs["prompts"]
    return [
        sum(len(c) for q, c in zip(prompts, completions, strict=True) if q == p) / prompts.count(p)
        for p in prompts
    ]


def process_id(completions, **kwargs):
    return [float(os.getpid())] * len(completions)


def thread_name(completions, **kwargs):
    return [float(threading.current_thread() is threading.main_thread())] * len(completions)


def alarmed(completions, **kwargs):
    """What math verifiers do for their timeouts: it works on the main thread alone."""
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.alarm(1)
    signal.alarm(0)
    return [1.0] * len(completions)


def environment(completions, **kwargs):
    return [float("SECRET_TOKEN" in os.environ)] * len(completions)


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    score = float(solution_str == ground_truth) + len(data_source) + extra_info["level"]
    return {"score": score, "acc": 1} if extra_info["level"] > 1 else score


def rollout(completion, answer, parser, state, info, prompt):
    assert state["answer"] == answer and state["prompt"] == prompt
    return float(parser.parse_answer(completion) == answer) + info["level"]


async def rollout_later(completion, answer, **kwargs):
    await asyncio.sleep(0)
    return 0.5


not_a_function = 3


def rows_of_a_call(completions, **kwargs):
    return [float(len(completions))] * len(completions)
