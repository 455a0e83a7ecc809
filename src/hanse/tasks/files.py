"""Problems from JSONL and parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hanse.errors import RecipeError
from hanse.recipe.tasks import FileTask
from hanse.tasks.listed import ListedTask
from hanse.tasks.optional import require
from hanse.tasks.rows import Row, Rows, held_out_from_rows, task_from_rows


def build_files(spec: FileTask) -> ListedTask:
    """A file, or a folder whose files with the type's suffix are read in the order of their names.

    Raises RecipeError for unreadable files, with the line where there is one.
    """
    held_out = None
    if spec.held_out_path is not None:
        held_out = read_rows(spec.type, spec.held_out_path, "task.held_out_path")
    field = "task.held_out_fraction" if held_out is None else "task.held_out_path"
    return task_from_rows(spec, read_rows(spec.type, spec.path, "task.path"), held_out, field)


def build_held_out(spec: FileTask, field: str = "task.held_out_path") -> ListedTask:
    """Only the file of held-out problems: what a server evaluates on that never sees a training file.

    Raises RecipeError, about `field`, for an unreadable file and one without problems.
    """
    assert spec.held_out_path is not None
    return held_out_from_rows(spec, read_rows(spec.type, spec.held_out_path, field), field)


def read_rows(file_type: str, path: str, field: str) -> Rows:
    """The rows of a file or a folder of files. Raises RecipeError, about `field`."""
    for file in _files(file_type, Path(path).expanduser(), field):
        try:
            yield from _jsonl(file, field) if file_type == "jsonl" else _parquet(file, field)
        except (OSError, UnicodeDecodeError) as error:
            raise RecipeError(field, f"{file} cannot be read: {error}.", "Check the file.") from error


def _files(file_type: str, path: Path, field: str) -> list[Path]:
    if not path.exists():
        problem = f"{path} does not exist (looked for it in {Path.cwd()})."
        raise RecipeError(field, problem, "Give a path that is absolute or relative to that folder.")
    if not path.is_dir():
        return [path]
    files = sorted(path.glob(f"*.{file_type}"))
    if not files:
        problem = f"the folder {path} has no *.{file_type} in it."
        raise RecipeError(field, problem, "Name the file itself, or set task.type to what the folder holds.")
    return files


def _jsonl(file: Path, field: str) -> Rows:
    with file.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{file.name}, line {number}", _json_row(line, f"{file}, line {number}", field)


def _json_row(line: str, where: str, field: str) -> Row:
    try:
        row: Any = json.loads(line.rstrip())
    except (ValueError, RecursionError) as error:
        why = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        problem = f"{where} is not JSON ({why})."
        raise RecipeError(field, problem, "Each line holds one JSON object.") from error
    if not isinstance(row, dict):
        problem = f"{where} holds a JSON {type(row).__name__}, not an object."
        raise RecipeError(field, problem, 'Each line is an object such as {"prompt": …, "answer": …}.')
    refuse_surrogates(line, row, where, field)
    return row


def refuse_surrogates(line: str, row: Row, where: str, field: str) -> None:
    """Raises RecipeError where `row`, parsed from `line`, holds half of a surrogate pair."""
    if "\\u" not in line:  # only an escape can bring one in
        return
    for column, value in row.items():
        try:
            json.dumps([column, value], ensure_ascii=False).encode()
        except UnicodeEncodeError:
            problem = f"{where}, column {column!a} holds half of a surrogate pair, which is no character."
            remedy = r'Write the character itself or both halves, as in "\ud83d\ude00".'
            raise RecipeError(field, problem, remedy) from None


def _parquet(file: Path, field: str) -> Iterator[tuple[str, Row]]:
    parquet = require("pyarrow.parquet", "data", "task.type")
    arrow_error = require("pyarrow", "data", "task.type").ArrowException
    number = 0
    try:
        for batch in parquet.ParquetFile(file).iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield f"{file.name}, row {number}", row
    except arrow_error as error:
        problem = f"{file} is not a readable parquet file: {error}."
        raise RecipeError(
            field, problem, 'Check the file; for JSON lines set task.type = "jsonl".'
        ) from error
