"""What can be done with a recipe or a run folder: the functions behind the command line."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hanse.errors import RunError
from hanse.recipe.model import HfPolicy, Recipe
from hanse.runs.control import ControlProgress, prepare_control
from hanse.runs.folder import RunFolder, read_json
from hanse.runs.progress import Progress, SilentProgress

if TYPE_CHECKING:
    from hanse.runtime.base import Connect
    from hanse.runtime.flower.serving import Serving


@dataclass(frozen=True)
class Run:
    """A finished run: its folder and its summary (`summary.json`).

    `already_finished`: `resume` found nothing left to do.
    """

    folder: Path
    summary: dict[str, Any]
    already_finished: bool = False

    @property
    def policy(self) -> Path:
        """The trained policy's folder: loads with transformers, or with peft for LoRA."""
        return self.folder / "policy"

    def metrics(self, kind: str = "round") -> list[dict[str, Any]]:
        """Rows of metrics.jsonl of a kind: "round" or "step"."""
        return RunFolder(self.folder).metrics(kind)


def train(
    recipe: Recipe,
    *,
    out: Path | str | None = None,
    progress: Progress | None = None,
    connect: Connect | None = None,
) -> Run:
    """Run a recipe in a new folder under `out` (default: `runs`) and return the finished run.

    `connect` reaches clients in another way than the recipe's runtime does by itself.

    A run that fails before its first evaluation leaves no folder. Raises RecipeError, RunError,
    NonFiniteError; KeyboardInterrupt leaves a run that can be resumed.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RunError(
            "hanse.train was called while a worker process imported your script. Put the call under "
            '`if __name__ == "__main__":`, or set runtime.workers = 1.'
        )
    folder = RunFolder.create(Path(out or "runs"), recipe)
    try:
        return _continue(folder, recipe, progress, connect)
    except Exception:
        folder.remove_unbegun()
        raise


def serve(recipe: Recipe, serving: Serving, *, out: Path | str, progress: Progress | None = None) -> Run:
    """Run a recipe of type "flower" in a new folder: clients join at the address of `serving`.

    Raises what `train` raises, and RecipeError for missing keys and an address that is not to be had.
    """
    folder = RunFolder.create(Path(out), recipe)
    try:
        serving.save(folder.path)
        return _continue(folder, recipe, progress, None)
    except Exception:
        folder.remove_unbegun()
        raise


def resume(folder: Path, progress: Progress | None = None, connect: Connect | None = None) -> Run:
    """Continue a run after its newest complete round; the end is bit-identical to an uninterrupted run.

    A finished run is returned as it is, unless `rounds` of its recipe.toml has been raised: then it goes on.
    Raises RunError where there is nothing to continue.
    """
    opened = RunFolder.open(folder)
    summary = opened.summary()
    whole = (folder / "report.html").exists() and opened.policy_path.is_dir()
    if summary is not None and whole and (summary.get("stopped") or not _more_rounds(opened, summary)):
        return Run(folder, summary, already_finished=True)
    return _continue(opened, opened.recipe(), progress, connect)


def _more_rounds(folder: RunFolder, summary: Mapping[str, Any]) -> bool:
    return folder.recipe().rounds > int(summary.get("rounds", 0))


def _continue(folder: RunFolder, recipe: Recipe, progress: Progress | None, connect: Connect | None) -> Run:
    from hanse.runs.connecting import connection
    from hanse.runs.session import Session

    shown = progress or SilentProgress()
    with terminated_as_interrupted():
        try:
            _train_control(folder, recipe, shown)
            with connection(recipe, folder, connect) as reach:
                return Run(folder.path, Session(folder, recipe, shown, reach).run())
        finally:
            shown.stop()


def _train_control(folder: RunFolder, recipe: Recipe, progress: Progress) -> None:
    """The same swarm without liars, where the recipe asks for one: first, in a run folder of its own."""
    if not recipe.adversary.control:
        return
    control = prepare_control(folder, recipe)
    try:
        resume(control.path, ControlProgress(progress))
    except Exception:
        control.remove_unbegun()
        raise


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: in good order. Signals belong to the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def evaluate(target: Path, recipe: Recipe | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Held-out accuracy, sampled and greedy, of a run's policy or of a model folder under `recipe`.

    Of a run also `round`, after which it was measured, and whether the run is `finished`.

    Raises RunError where `target` is a model and no recipe says what to evaluate it on, and where files of a
    run are damaged; a damaged newest round gives way to the one before it, with a warning.
    """
    shown = progress or SilentProgress()
    if not (target / "recipe.toml").is_file():
        if recipe is None:
            raise RunError(f"{target} is not a run folder; give --recipe to say on what to evaluate it.")
        spec = HfPolicy(type="hf", path=str(target), train="full")
        return _examine(recipe.model_copy(update={"policy": spec}), None, shown)
    folder = RunFolder.open(target)
    try:
        finished = folder.summary_path.is_file()
        return _examine(recipe or folder.recipe(), folder, shown) | {"finished": finished}
    except OSError as error:
        raise RunError(f"{target} cannot be read: {error}. Check its files and their permissions.") from error


def _examine(recipe: Recipe, folder: RunFolder | None, progress: Progress) -> dict[str, Any]:
    from hanse.runs.building import build_training
    from hanse.runs.evaluating import Levels, examine
    from hanse.runs.ledger import Ledger
    from hanse.runs.start import ensure_start
    from hanse.runtime.host import client_data
    from hanse.tasks.build import recipe_task

    newest, start, task = None, None, recipe_task(recipe)
    if folder is not None:
        newest = folder.newest_sound_round(progress.warning)
        if newest is None:
            raise RunError(f"{folder.path} has no complete round yet: go on with `hanse resume`.")
        start = ensure_start(recipe, task, folder, Ledger.load(newest).start_sha256)
    parts = client_data(recipe, task)
    names = [part.name for part in parts]
    with closing(build_training(recipe, start, names, task, idle=True)) as training:
        if newest is not None:
            training.load(newest)
        column, private = recipe.evaluation.level_column, recipe.privacy.enabled
        levels = Levels.of(training.levels, parts, column, private=private)
        result = examine(training, training.models(), levels, recipe.evaluation)[0]
        return result if newest is None else result | {"round": int(newest.name)}


def export(folder: Path, out: Path, merge: bool = False) -> Path:
    """Copy a run's policy to `out`; with `merge`, LoRA factors folded into a full model.

    A `local` run has a policy for each client, in folders of their names. Raises RunError where the run has
    no policy yet or a damaged one, and where `out` exists or cannot be written.
    """
    from hanse.policy.export import copy_policy, merge_policies

    run = RunFolder.open(folder)
    source = run.policy_path
    if not source.is_dir():
        raise RunError(f"{folder} has no policy yet: finish it with `hanse resume {folder}`.")
    if out.exists():
        raise RunError(f"--out: {out} exists already. Choose another folder.")
    if merge and run.recipe().mode == "reward-model":
        raise RunError("--merge: a reward model's head has no place in a merged policy. Export it as it is.")
    try:
        if merge:
            merge_policies(source, out, _card_of_merged(run))
        else:
            copy_policy(source, out)
    except OSError as error:
        raise RunError(f"{source} cannot be copied to {out}: {error}.") from error
    return out


def _card_of_merged(folder: RunFolder) -> str:
    from hanse.runs.model_card import model_card

    path = folder.path / "partition.json"
    rows = read_json(path).get("rows", []) if path.is_file() else []
    return model_card(folder.recipe(), folder.summary() or {}, rows, merged=True)
