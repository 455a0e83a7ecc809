"""The words of this page."""

from __future__ import annotations

from hanse.runs.report.markup import Section, section, tag

_WORDS = {
    "Accuracy": "Mean of the first reward function over scored completions, averaged over levels. Sampled: "
    "as in training, at the recipe's temperature. Greedy: the most likely token each time.",
    "Validation, held out": "Two sets of problems that nobody trains on. Validation ones are measured from "
    "round to round and choose policy-best; held-out ones are measured before and after and decide nothing.",
    "Group": "All completions sampled for one problem in one step. GRPO compares them with each other only.",
    "Advantage, learning signal": "How much better a completion is than its group. The learning signal is "
    "the mean absolute advantage: 0 means that nothing is learnt.",
    "Loss": "Not on this page on purpose. With one update a batch the policy that learns is the one that "
    "sampled, every ratio is 1, and the loss is the mean advantage: 0 by construction. Its gradient is not: "
    "look at the learning signal and the gradient norm.",
    "Groups without signal": "Groups whose rewards are all equal (zero variance): all right or all wrong. "
    "Their advantages are 0 and they teach nothing. Many right ones mean that problems are too easy, many "
    "wrong ones that they are too hard or that a group needs more samples.",
    "Spread within groups": "Standard deviation of rewards within a group, averaged over groups. With 0/1 "
    "rewards it is largest when half of the completions are right.",
    "Cut-off completions": "Completions that reached grpo.max_new_tokens before they ended. They mostly get "
    "no reward, however good they were going to be.",
    "Unscored": "The reward function raised an error, ran out of time or returned nothing. Such completions "
    "count nowhere; they aren't rewarded with 0.",
    "Entropy": "Mean of −log p over sampled tokens: how undecided the policy is. Near 0, all completions of "
    "a group are the same and there is nothing left to compare.",
    "KL": "How far the policy has moved from the reference, in nats a token. Measured only if grpo.beta is "
    "above 0.",
    "Gradient norm": "Length of the gradient before it is clipped to grpo.max_grad_norm.",
}
_OF_CLIENTS = {
    "Weight": "How much a client's values count in the server's average of a round; all weights sum to 1.",
    "Update norm": "Length of the difference between what a client received and what it sent back.",
    "Bytes up, down": "From clients to server, and back: the length of the messages, headers included.",
}


_OF_NODES = {
    "Attack success": "The share of honest nodes' completions that show what the attackers plant, among "
    "those that could. Attacks that plant nothing, such as DoS, are told by length and reward.",
    "Honest rejects": "The share of what honest nodes sent that a defence rejected: what the defence costs.",
    "Lies accepted": "The share of the liars' rewarded completions that no defence rejected.",
    "Rejected": "Dropped: counts nowhere. Masked: counts with reward 0 in its group, no gradient. Zero: "
    "reward 0 and a gradient that pushes it down.",
    "Bytes up, down": "What all nodes sent together, and what they received of each other.",
}


_OF_JUDGES = {
    "Score": "What a client says a candidate is worth: by its own answer, its own model's answer, or its "
    "reward model.",
    "Competence": "The share of the server's auxiliary problems that a client got right. About each question "
    "those are asked who got most of the problems near it right.",
    "Bytes up, down": "Scores from clients to server; questions and candidates back: the length of the "
    "messages, headers included.",
}


def glossary(mode: str) -> Section:
    """The words that a page of this mode uses."""
    own = {"swarm": _OF_NODES, "reward-only": _OF_JUDGES}
    words = _WORDS | own.get(mode, _OF_CLIENTS)
    entries = [tag("div", tag("dt", word), tag("dd", meaning)) for word, meaning in words.items()]
    return section("glossary", "What the words mean", tag("dl", *entries, class_="glossary"))
