"""TOML files of recipes and studies: reading one, and what to say where another one was meant."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any, Literal

from hanse.errors import RecipeError
from hanse.recipe.model import Recipe

Kind = Literal["recipe", "study"]
Document = dict[str, Any]

_SYNTAX = {
    "recipe": 'strings need quotes (name = "run"), sections look like [grpo].',
    "study": "arms look like [[arms]].",
}


def kind_of(document: Document) -> Kind | None:
    """What a document is meant as; None where it is neither."""
    if "arms" in document:
        return "study"
    return "recipe" if document.keys() <= Recipe.model_fields.keys() else None


def read_document(path: Path, wanted: Kind) -> tuple[Document, str]:
    """The content of a TOML file, and its text. Raises RecipeError for what cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise RecipeError(str(path), "there is no such file.", _nearby(path, wanted)) from None
    except IsADirectoryError:
        raise RecipeError(str(path), "this is a folder.", _inside(path, wanted)) from None
    except UnicodeDecodeError as error:
        problem = f"not a text file in UTF-8 (byte {error.start})."
        raise RecipeError(str(path), problem, f"Give a {wanted} in TOML, saved as UTF-8.") from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})."
        raise RecipeError(str(path), problem, "Check the file and its permissions.") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        remedy = f"Correct that line; {_SYNTAX[wanted]}"
        raise RecipeError(str(path), f"invalid TOML: {error}.", remedy) from None
    _refuse_other(path, document, wanted)
    return document, text


def _refuse_other(path: Path, document: Document, wanted: Kind) -> None:
    """Raises RecipeError for a study in place of a recipe, and the other way round."""
    kind = kind_of(document)
    if not document or kind in (wanted, None):
        return
    if wanted == "recipe":
        remedy = f"Run it with `hanse study {path}`."
    else:
        remedy = f"Train it with `hanse train {path}`, or name it as the recipe of a study (docs/studies.md)."
    raise RecipeError(str(path), f"this is a {kind}, not a {wanted}.", remedy)


def _nearby(path: Path, wanted: Kind) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"The folder {folder} does not exist either; check the path."
    names = [found.name for found in _those_in(folder, wanted)]
    close = difflib.get_close_matches(path.name, names, 1, 0.5)
    if close:
        return f"Did you mean {folder / close[0]}?"
    kinds = {"recipe": "Recipes", "study": "Studies"}
    return f"{kinds[wanted]} there: {', '.join(names[:10])}." if names else "Check the path."


def _inside(path: Path, wanted: Kind) -> str:
    files = _those_in(path, wanted)
    if not files:
        return f"Give a {wanted} file."
    resolved = path / "recipe.toml"
    return f"Give a {wanted} file, for example {resolved if resolved in files else files[0]}."


def _those_in(folder: Path, wanted: Kind) -> list[Path]:
    """The TOML files of a folder that are what is wanted."""
    found = []
    for path in sorted(folder.glob("*.toml")):
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError):
            continue
        if kind_of(document) == wanted:
            found.append(path)
    return found
