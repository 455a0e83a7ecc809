"""Three signatures of reward functions, each as a call on a batch."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from hanse.tasks.rewards.batch import RESERVED, Batch, RewardFunction, text_of

Call = Callable[[Batch], Any]


class MissingColumnError(Exception):
    """The function asks for an argument that neither columns nor the recipe's arguments provide."""


def _choose(
    function: RewardFunction, available: Mapping[str, Any], fixed: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments that the function's signature asks for; `fixed` ones win."""
    merged = {**available, **fixed}
    parameters = inspect.signature(function).parameters.values()
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        merged = {p.name: merged[p.name] for p in parameters if p.name in merged}
    for p in parameters:
        if (
            p.default is p.empty
            and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            and p.name not in merged
        ):
            raise MissingColumnError(f"asks for {p.name!r}; available are {', '.join(sorted(available))}")
    return merged


def _ignore(*_: object) -> None:
    """Stands in for TRL's log_extra and log_metric."""


def trl(function: RewardFunction, arguments: Mapping[str, Any]) -> Call:
    """f(prompts, completions, **columns) → list, as TRL's GRPOTrainer calls it; async functions too.

    `completion_ids` are passed where known, `trainer_state` is not.
    """

    def call(batch: Batch) -> Any:
        columns = {name: values for name, values in batch.columns.items() if name not in RESERVED}
        available = {
            "prompts": batch.prompts,
            "completions": batch.completions,
            "log_extra": _ignore,
            "log_metric": _ignore,
            **columns,
        }
        if batch.completion_ids is not None:
            available["completion_ids"] = batch.completion_ids
        result = function(**_choose(function, available, arguments))
        return asyncio.run(_wait(result)) if inspect.isawaitable(result) else result

    return call


def verl(function: RewardFunction, arguments: Mapping[str, Any]) -> Call:
    """compute_score(data_source, solution_str, ground_truth, extra_info) → float or {"score": float, …}.

    Taken from the columns `data_source`, `extra_info` (default: all columns) and the answer, or the
    column `reward_model` of verl's own data sets.
    """

    def call(batch: Batch) -> list[Any]:
        values = []
        for i, completion in enumerate(batch.completions):
            row = {name: column[i] for name, column in batch.columns.items()}
            available = {
                "data_source": row.get("data_source") or "",
                "solution_str": text_of(completion),
                "ground_truth": _ground_truth(row),
                "extra_info": row.get("extra_info", row),
            }
            score = function(**_choose(function, available, arguments))
            values.append(score["score"] if isinstance(score, Mapping) else score)
        return values

    return call


def _ground_truth(row: Mapping[str, Any]) -> Any:
    model = row.get("reward_model")
    if row.get("answer") is None and isinstance(model, Mapping):
        return model.get("ground_truth")
    return row.get("answer")


class Parser:
    """What a verifiers function may call on its `parser`: the text as it is."""

    def parse(self, text: Any) -> Any:
        return text

    def parse_answer(self, completion: Any) -> str:
        return text_of(completion)


def verifiers(function: RewardFunction, arguments: Mapping[str, Any]) -> Call:
    """f(completion, answer, prompt, state, info, task, parser, …) → float, arguments chosen by name.

    One completion a call, as the first verifiers releases do; sync or async (then all at once).
    """

    def call(batch: Batch) -> list[Any]:
        results = [function(**_choose(function, _rollout(batch, i), arguments)) for i in range(len(batch))]
        waiting = [i for i, result in enumerate(results) if inspect.isawaitable(result)]
        if waiting:
            for i, value in zip(waiting, asyncio.run(_gather([results[i] for i in waiting])), strict=True):
                results[i] = value
        return results

    return call


def _rollout(batch: Batch, i: int) -> dict[str, Any]:
    row = {name: column[i] for name, column in batch.columns.items() if name not in RESERVED}
    answer = "" if row.get("answer") is None else row["answer"]
    info = row.get("info") if isinstance(row.get("info"), Mapping) else row
    common = {
        "prompt": batch.prompts[i],
        "completion": batch.completions[i],
        "answer": answer,
        "task": row.get("task") or "default",
        "info": info,
    }
    state = {**common, "responses": [], "turn": 1, "timing": {}}
    return {**row, **common, "state": state, "parser": Parser()}


async def _wait(result: Awaitable[Any]) -> Any:
    return await result


async def _gather(results: Sequence[Awaitable[Any]]) -> list[Any]:
    return await asyncio.gather(*results)
