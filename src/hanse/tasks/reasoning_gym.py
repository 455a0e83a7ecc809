"""Problems of a reasoning-gym generator, with the generator's own scorer."""

from __future__ import annotations

import difflib
import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any

from hanse.errors import RecipeError
from hanse.recipe.tasks import ReasoningGymTask, RewardSpec
from hanse.tasks import child_environment
from hanse.tasks.listed import ListedTask, gather, refuse_empty
from hanse.tasks.optional import install
from hanse.tasks.problem import Problem, Split, split_of
from hanse.tasks.rows import as_chat


def build_reasoning_gym(spec: ReasoningGymTask) -> ListedTask:
    """`spec.size` problems, spread over the levels, split by a hash of the question.

    Level i (from 1, the metadata column `level`) uses `arguments` overridden by `levels[i - 1]`; its seed
    is the argument `seed` (default 0) plus i - 1. `answer` is the generator's reference, None where it has
    none; scoring uses the generator's own `score_answer` on the entry that metadata carries.

    Raises RecipeError for unknown generators, refused arguments, and without the extra `data`.
    """
    as_chat("", spec.system_prompt, spec.chat)  # refuses bad pairs before anything is generated
    jobs = _jobs(spec)
    splits = gather(_problems(spec, jobs, _generate(spec, jobs)))
    refuse_empty(splits, f"reasoning-gym's {spec.generator}")
    reward = RewardSpec(name="reasoning_gym", arguments={"tag": spec.answer_tag} if spec.answer_tag else {})
    return ListedTask(f"reasoning-gym/{spec.generator}", (reward,), splits)


def _jobs(spec: ReasoningGymTask) -> list[dict[str, Any]]:
    levels: Sequence[dict[str, Any]] = spec.levels or [{}]
    share, rest = divmod(spec.size, len(levels))
    jobs = []
    for i, level in enumerate(levels):
        arguments = {**spec.arguments, **level}
        seed = arguments.pop("seed", 0) + i
        jobs.append({**arguments, "size": share + (i < rest), "seed": seed})
    return jobs


def _generate(spec: ReasoningGymTask, jobs: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Entries of each job, made by a child with a fixed hash seed: some generators iterate over sets."""
    finished = subprocess.run(
        child_environment.command("hanse.tasks.reasoning_gym_entries"),
        input=json.dumps({"generator": spec.generator, "jobs": jobs}),
        env=child_environment.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        reply = json.loads(finished.stdout)
    except ValueError:
        last = finished.stderr.strip().splitlines()[-1:] or [f"exit status {finished.returncode}"]
        reply = {"refused": last[0]}
    if "entries" in reply:
        entries: list[list[dict[str, Any]]] = reply["entries"]
        return entries
    raise _error(spec, reply)


def _error(spec: ReasoningGymTask, reply: dict[str, Any]) -> RecipeError:
    if "missing" in reply:
        problem = f"this needs the package 'reasoning-gym', which cannot be imported ({reply['missing']})."
        return RecipeError("task.type", problem, f"In the clone of hanse, run `{install('data')}`.")
    if "known" in reply:
        near = difflib.get_close_matches(spec.generator, reply["known"], 5) or reply["known"]
        problem = f"reasoning-gym has no generator {spec.generator!r}."
        return RecipeError("task.generator", problem, f"Choose one of: {', '.join(near)}.")
    field = "task.levels" if spec.levels else "task.arguments"
    problem = f"the generator {spec.generator!r} refuses: {reply.get('refused')}."
    return RecipeError(field, problem, "See its configuration class in reasoning-gym for what it takes.")


def _problems(
    spec: ReasoningGymTask, jobs: list[dict[str, Any]], entries: list[list[dict[str, Any]]]
) -> Iterator[tuple[Split, Problem]]:
    seen: set[str] = set()
    for level, (job, listed) in enumerate(zip(jobs, entries, strict=True), 1):
        for index, entry in enumerate(listed):
            question: str = entry["question"]
            if question in seen:
                continue
            seen.add(question)
            split = split_of(question, spec.held_out_fraction, spec.validation_fraction)
            metadata = {"level": level, "generator": spec.generator, "configuration": job, "entry": entry}
            prompt = as_chat(question + spec.suffix, spec.system_prompt, spec.chat)
            answer = entry["answer"]
            known = answer if answer is None or isinstance(answer, str) else json.dumps(answer)
            yield split, Problem(f"{spec.generator}-{level}-{index}", prompt, known, metadata)
