"""Who owned what, how it was run, and what the words mean."""

from __future__ import annotations

from hanse.runs.report.data import ReportData
from hanse.runs.report.page.markup import Child, Html, el, join
from hanse.runs.report.page.numbers import count
from hanse.runs.report.page.reading import mapping
from hanse.runs.report.page.tables import folded, table
from hanse.runs.report.page.tables import section as part

_WORDS = (
    (
        "On-policy loss is 0",
        "GRPO's advantages sum to zero within a group. With one update a batch the new policy equals the "
        "one that sampled, so every ratio is 1 and the loss is the mean advantage: 0 by construction. Its "
        "gradient is not. Look at reward, mean absolute advantage and gradient norm instead.",
    ),
    (
        "Group without signal",
        "All completions of a problem got the same reward (zero variance): always right, or always wrong. "
        "No completion is better than its group-mates, so every advantage is 0 and nothing is learnt from "
        "it.",
    ),
    (
        "Sampled and greedy",
        "Sampled accuracy draws completions as in training, at temperature 1; greedy takes the likeliest "
        "token each time. Reinforcement often raises sampled accuracy most: it makes likely what the "
        "model could already do.",
    ),
    (
        "Unscored",
        "The reward function raised, ran out of time or returned NaN. The completion counts nowhere: not "
        "as wrong, not in the group's mean, not in the loss.",
    ),
    (
        "Validation and held-out",
        "Validation problems are measured while training and choose the best round. Held-out problems are "
        "measured before and after only and decide nothing. Clients train on neither.",
    ),
    (
        "Reward, spread, weight",
        "The scalars a client's training yields for free: mean reward, mean standard deviation within its "
        "groups, and its share in the average that becomes the next model.",
    ),
    (
        "Cut off",
        "A completion that reached grpo.max_new_tokens before it ended by itself.",
    ),
)


def partition(data: ReportData) -> Html:
    rows = [row for row in data.partition if row.get("client") is not None]
    if not rows:
        return part("partition", "Who owns which problems", el("p", "Not recorded.", class_="empty"))
    levels = list(dict.fromkeys(key for row in rows for key in row if key not in ("client", "problems")))
    cells: list[list[Child]] = [
        [str(row["client"]), count(row.get("problems")), *[count(row.get(level, 0)) for level in levels]]
        for row in rows
    ]
    head = ["client", "problems", *[f"level {level}" for level in levels]]
    return part(
        "partition", "Who owns which problems", table("Training problems by client and level", head, cells)
    )


def setting(data: ReportData) -> Html:
    environment: list[list[Child]] = [[str(k), str(v)] for k, v in mapping(data.environment).items()]
    versions = table("Versions and machine", ["what", "value"], environment) if environment else None
    return part(
        "setting",
        "Recipe and environment",
        el("p", "The resolved recipe determines the run; train it again with `hanse train`.", class_="note"),
        folded("Recipe", el("pre", data.recipe_toml, class_="file", tabindex=0), open_=True),
        folded("Environment", versions or el("p", "Not recorded.", class_="empty"), open_=True),
        _hashes(data),
    )


def _hashes(data: ReportData) -> Html | None:
    known = data.summary.get("policy_sha256")
    if not known:
        return None
    each = (
        [(f"policy of {k}", v) for k, v in known.items()] if isinstance(known, dict) else [("policy", known)]
    )
    lines = [join(el("b", f"{name}: "), el("code", str(value))) for name, value in each]
    return el(
        "div", el("h3", "SHA-256 of the trained tensors"), *[el("p", line) for line in lines], class_="hashes"
    )


def glossary() -> Html:
    items = [el("div", el("dt", word), el("dd", meaning)) for word, meaning in _WORDS]
    return part("glossary", "Glossary", el("dl", *items, class_="glossary"))
