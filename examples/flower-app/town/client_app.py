"""A client: a few GRPO steps on problems of its own. What it reports are means over a round."""

from __future__ import annotations

import torch
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from hanse import Group, Learner, Problem, Sampler, Sampling, group_advantages
from town.policy import SPEC, from_arrays, new_policy, to_arrays

app = ClientApp()


def own_problems(client: int) -> list[Problem]:
    """This client's prompts; yours come from your files. They never leave."""
    return [Problem(id=f"{client}-{n}", prompt=f"{n:03d}+{client:03d}=") for n in range(32)]


def reward(text: str, client: int) -> float:
    """What this client wants: its own digit, often. A graded reward has something to teach from the start."""
    return text.count(str(client % 10)) / max(1, len(text))


@app.train()
def train(message: Message, context: Context) -> Message:
    client, seed = int(context.node_config["partition-id"]), int(context.run_config["seed"])
    steps, server_round = (
        int(context.run_config["local-steps"]),
        int(message.content["config"]["server-round"]),
    )
    torch.set_num_threads(1)
    policy = new_policy(seed)
    from_arrays(policy, message.content["arrays"])
    sampler, learner = (
        Sampler(policy, Sampling(max_new_tokens=SPEC.max_new_tokens)),
        Learner(policy, SPEC, steps),
    )
    problems, groups = own_problems(client), list[Group]()
    for step in range(steps):
        first = (server_round * steps + step) * SPEC.prompts_per_step
        chosen = [problems[(first + i) % len(problems)] for i in range(SPEC.prompts_per_step)]
        seeds = [1_000_003 * client + first + i for i in range(SPEC.prompts_per_step)]
        batch = sampler.sample(chosen, SPEC.group_size, seeds)
        for group in batch:
            texts = policy.decode(group.token_ids_G())
            group.rewards_G = torch.tensor([reward(text, client) for text in texts], dtype=torch.float64)
            group.advantages_G = group_advantages(group.rewards_G.unsqueeze(0))[0]
        learner.step(batch)
        groups += batch
    rewards = torch.stack([group.rewards_G for group in groups])
    told = MetricRecord(
        {
            "num-examples": len(problems),
            "reward-mean": float(rewards.mean()),
            "reward-std": float(rewards.std(dim=1, correction=0).mean()),
        }
    )
    return Message(RecordDict({"arrays": to_arrays(policy), "metrics": told}), reply_to=message)
