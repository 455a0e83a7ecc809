"""The end of a run: the policy exported, the summary and the report written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hanse.errors import RunError
from hanse.runs.control import add_control
from hanse.runs.model_card import model_card
from hanse.runs.models import Model
from hanse.runs.reporting import write_report
from hanse.runs.reward_model_card import reward_model_card
from hanse.runs.training import Training
from hanse.runtime.state import load_tensors
from hanse.storage import write_json

if TYPE_CHECKING:
    from torch import Tensor

    from hanse.runs.session import Session


def finish(
    session: Session,
    training: Training,
    models: list[Model],
    summary: dict[str, Any],
    records: list[dict[str, Any]],
) -> dict[str, Any]:
    """Write what a run leaves behind and return its summary. Doing it twice gives the same files."""
    folder = session.folder
    folder.cut(folder.completions_path, session.ledger.sizes.get(folder.completions_path.name, 0))
    folder.append(folder.completions_path, [{"when": "after", **row} for row in records])
    best = _best(session, models)
    hashes = {}
    for i, model in enumerate(models):
        where = "" if model.name is None else f"/{model.name}"
        _export(session, training, replace(model, values=best[i]), f"policy-best{where}", summary)
        hashes[model.name] = _export(session, training, model, f"policy{where}", summary)
    summary["policy_sha256"] = hashes.get(None) or hashes
    add_control(folder, summary)
    write_json(folder.summary_path, summary)
    session.progress.note("Writing the report …")
    write_report(folder.path)
    session.progress.finished(summary, folder.path)
    return summary


def _best(session: Session, models: list[Model]) -> list[Tensor]:
    """Each model's values in the best round; the last ones, with a warning, where that file is no good."""
    last, wanted = [model.values for model in models], session.ledger.best_round
    try:
        tensors, fields = load_tensors(session.folder.best_path)
        best = [tensors[f"{i:04d}"] for i in range(len(models))]
        if fields["round"] != wanted or any(b.shape != v.shape for b, v in zip(best, last, strict=True)):
            raise RunError(f"{session.folder.best_path} is of another round or another policy.")
    except (RunError, KeyError) as error:
        session.warn_of(f"{error} policy-best is the last round's policy instead of round {wanted}'s.")
        return last
    return best


def _export(session: Session, training: Training, model: Model, name: str, summary: dict[str, Any]) -> str:
    target = session.folder.path / name
    target.parent.mkdir(parents=True, exist_ok=True)
    return training.export(model, target, _card(session, summary))


def _card(session: Session, summary: dict[str, Any]) -> str:
    if session.recipe.mode == "reward-model":
        return reward_model_card(session.recipe, summary)
    return model_card(session.recipe, summary, session.levels.partition_rows())
