"""The end of a run: the policy exported, the summary and the report written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hanse.policy.export import save_policy
from hanse.policy.policy import Policy
from hanse.runs.cohorts import Cohort
from hanse.runs.model_card import model_card
from hanse.runs.reporting import write_report
from hanse.runtime.host import Host
from hanse.runtime.state import load_tensors
from hanse.storage import write_json

if TYPE_CHECKING:
    from torch import Tensor

    from hanse.runs.session import Session


def finish(
    session: Session,
    host: Host,
    cohorts: list[Cohort],
    summary: dict[str, Any],
    records: list[dict[str, Any]],
) -> dict[str, Any]:
    """Write what a run leaves behind and return its summary. Doing it twice gives the same files."""
    folder = session.folder
    folder.cut(folder.completions_path, session.ledger.sizes.get(folder.completions_path.name, 0))
    folder.append(folder.completions_path, [{"when": "after", **row} for row in records])
    best, _ = load_tensors(folder.best_path)
    hashes = {}
    for i, cohort in enumerate(cohorts):
        where = "" if cohort.name is None else f"/{cohort.name}"
        _export(session, host.policy, best[f"{i:04d}"], f"policy-best{where}", summary)
        _export(session, host.policy, cohort.server.values(), f"policy{where}", summary)
        hashes[cohort.name] = host.policy.parameters.sha256()
    summary["policy_sha256"] = hashes.get(None) or hashes
    write_json(folder.summary_path, summary)
    session.progress.note("Writing the report …")
    write_report(folder.path)
    session.progress.finished(summary, folder.path)
    return summary


def _export(session: Session, policy: Policy, values: Tensor, name: str, summary: dict[str, Any]) -> None:
    policy.parameters.load(values)
    target = session.folder.path / name
    target.parent.mkdir(parents=True, exist_ok=True)
    save_policy(policy, target, card=model_card(session.recipe, summary, session.levels.partition_rows()))
