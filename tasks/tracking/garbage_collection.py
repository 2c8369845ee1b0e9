"""Retention of runs, and garbage collection of data that no kept run refers to.

These are stages, checkpoints, and remains of killed stages and downloads.

Kept are the stages that trained a run which is not deleted in MLflow, those that an unfinished run
reads, the stages of each flow's newest successful run, and all their ancestors. Data in use by an
active flow run is kept, too.
"""

import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from prefect.settings import PREFECT_LOCAL_STORAGE_PATH

from infra.artifacts.in_use import stages_of_newest_runs
from infra.artifacts.locks import lock_file, lock_if_free
from infra.artifacts.manifest import stages_folder
from infra.artifacts.shared_folder import remove_shared
from infra.atomic_files import BUILDING, PRUNED, remove_folder
from infra.errors import UserError
from infra.settings import settings
from infra.storage.store import checkpoint_storage
from tasks.tracking.client import mlflow_client
from tasks.tracking.lineage import (
    TRAINING_STAGE,
    FinishedStage,
    RecordedRun,
    ancestors,
    finished_stages,
    recorded_runs,
)

# The stages that write checkpoints, and end an MLflow run.
TRAININGS = (TRAINING_STAGE, "train-language-model")
# Days for which runs that were deleted in MLflow can be restored, and downloads resumed.
KEPT_DAYS = 3


def retire(experiment: str, keep: int, kept_stages: Collection[str] = ()) -> list[RecordedRun]:
    """Delete the MLflow runs of all but the `keep` newest flow runs of an experiment, with their
    models. Returns the deleted runs.

    A flow run is kept as a whole if it is still running, a model of it has an alias (champion,
    previous, or a user's own), or one of its stages is in use or among the `kept_stages`
    (<stage>/<key>). At an address, new ones are kept as well.
    """
    runs = [run for run in recorded_runs() if run.experiment == experiment]
    retired: list[RecordedRun] = []
    for parent in [run for run in runs if run.parent is None][keep:]:
        family = [*(run for run in runs if run.parent == parent.id), parent]
        stages = {f"{TRAINING_STAGE}/{run.stage}" for run in family}
        if _is_new(parent) or stages & set(kept_stages) or _is_protected(family):
            continue
        with ExitStack() as held:
            locks = [lock_file(stages_folder() / stage, "use") for stage in stages]
            if all(held.enter_context(lock_if_free(lock)) for lock in locks):
                for run in family:
                    _delete(run)
                retired += family
    return retired


def _is_new(parent: RecordedRun) -> bool:
    """Whether the store may keep the stages of a flow run: at an address, new ones. Without their
    models, a run with the same settings would find a training whose model is gone."""
    # Stages are new for the time limit, and a flow can finish the last one at the end of its own.
    hours = _hours_since(parent.started)
    return settings().address is not None and hours < 2 * settings().time_limit_hours


def _is_protected(family: Sequence[RecordedRun]) -> bool:
    """Whether one of the runs is still running, or a model of it has an alias by now."""
    client = mlflow_client()
    models = {name for run in family for name in run.models if "@" not in name}
    versions = (client.get_model_version(*model.rsplit("/", 1)) for model in models)
    return any(run.status == "RUNNING" for run in family) or any(v.aliases for v in versions)


def _delete(run: RecordedRun) -> None:
    client = mlflow_client()
    for model in run.models:
        client.delete_model_version(*model.rsplit("/", 1))
    experiment = client.get_run(run.id).info.experiment_id
    for logged in client.search_logged_models([experiment], f"source_run_id = '{run.id}'"):
        client.delete_logged_model(logged.model_id)
    client.delete_run(run.id)


@dataclass(frozen=True)
class Garbage:
    """A folder or file that can be removed once its lock is free."""

    path: Path
    reason: str
    lock: Path
    bytes: int

    @property
    def in_use(self) -> bool:
        with lock_if_free(self.lock) as free:
            return not free


def find_garbage(checkpoints: bool = False) -> list[Garbage]:
    """All removable folders and files, given the runs that MLflow keeps; with
    `checkpoints`, also those from which interrupted runs could resume.

    Raises:
        UserError: the MLflow server does not respond, or the store has none of the trainings.
    """
    stages, runs = finished_stages(), recorded_runs()
    trained = {s.folder.name for s in stages.values() if s.folder.parent.name in TRAININGS}
    known = {run.stage for run in recorded_runs(include_deleted=True)}
    # A wrong or missing store keeps no run, so that all trainings would be removed.
    if trained and not trained & known:
        raise UserError(
            f"None of the {len(trained)} trainings under {settings().root} is recorded in the "
            "current MLflow store, so pruning would remove all of them. Set "
            "BIDAFLOW_MLFLOW_TRACKING_URI to the store that has their runs."
        )
    finished = {stage.folder.name for stage in stages.values()}
    resumable = {run.stage for run in runs if run.status == "RUNNING" or not checkpoints}
    return [
        *_unreferenced(stages, runs),
        *_left_of_stages(),
        *_checkpoints(resumable - finished),
        *_old_downloads(),
    ]


def prune(checkpoints: bool = False) -> list[Garbage]:
    """Remove all garbage, as `find_garbage` lists it, that is not in use. Returns what was removed.

    From a local database, `mlflow gc` removes the runs and models that were deleted days ago.

    Raises:
        UserError: as `find_garbage` does.
    """
    with ExitStack() as held:
        locks = {item.lock for item in find_garbage(checkpoints)}
        free = {lock for lock in locks if held.enter_context(lock_if_free(lock))}
        # Listed again, for what a flow has begun to use or a new run refers to.
        removed = [item for item in find_garbage(checkpoints) if item.lock in free]
        for item in removed:
            _remove(item.path)
    erase_deleted()
    return removed


def erase_deleted() -> None:
    """Erase the runs, models and experiments that were deleted in a local database KEPT_DAYS ago,
    with their files.

    Raises:
        UserError: MLflow can't erase them; the message has its last words.
    """
    uri = settings().tracking_uri
    if not uri.startswith("sqlite:"):
        return
    mlflow_client()  # corrects the locations of a database that was moved or copied
    collect = [sys.executable, "-m", "mlflow", "gc", "--older-than", f"{KEPT_DAYS}d"]
    done = subprocess.run(
        [*collect, "--backend-store-uri", uri, "--tracking-uri", uri],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        reason = (done.stderr.splitlines() or [f"exit status {done.returncode}"])[-1]
        raise UserError(
            f"MLflow could not erase what was deleted in it ({reason}). The rest is removed; run "
            "bidaflow prune --yes again."
        )


def _unreferenced(
    stages: Mapping[str, FinishedStage], runs: Sequence[RecordedRun]
) -> Iterator[Garbage]:
    """Stages that no kept run was made from, and that no unfinished one reads. At an address, new
    ones are kept as well, because a run on another machine may use them."""
    keys = {run.stage for run in runs}
    trainings = {name for name, stage in stages.items() if stage.folder.name in keys}
    newest = stages_of_newest_runs() & stages.keys()
    kept = ancestors(stages, trainings | newest | _inputs_of_unfinished(stages, runs))
    for name in sorted(stages.keys() - kept):
        folder, manifest = stages[name].folder, stages[name].manifest
        age = _hours_since(manifest["finished"])
        if settings().address is None or age >= settings().time_limit_hours:
            size = sum(file["bytes"] for file in manifest["files"].values())
            yield Garbage(folder, "not used by any kept run", lock_file(folder, "use"), size)


def _inputs_of_unfinished(
    stages: Mapping[str, FinishedStage], runs: Sequence[RecordedRun]
) -> set[str]:
    """The stages that runs in progress read, and those from which interrupted ones can resume.

    MLflow has the digests of data, vocabulary and vectors. What is made from these only, such as
    encodings, is read as well.
    """
    digests = {
        digest for run in runs if run.status != "FINISHED" for digest in run.digests.values()
    }
    logged = {name for name, stage in stages.items() if stage.manifest["digest"] in digests}
    return logged | {
        name for name, stage in stages.items() if stage.parents and stage.parents <= logged
    }


def _hours_since(moment: str) -> float:
    """Hours since a moment in ISO format."""
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds() / 3600


def _left_of_stages() -> Iterator[Garbage]:
    """What killed runs have left of stages that they were building or removing."""
    for prefix, purpose in ((BUILDING, "build"), (PRUNED, "use")):
        for folder in sorted(stages_folder().glob(f"*/{prefix}*")):
            lock = lock_file(folder.with_name(folder.name.removeprefix(prefix)), purpose)
            yield Garbage(folder, "left by a killed run", lock, _size(folder))


def _checkpoints(resumable: Collection[str | None]) -> Iterator[Garbage]:
    """The checkpoints, and the answered parts of a `predict`, of all but the resumable stages."""
    ray = settings().root.resolve() / "ray"
    shared = checkpoint_storage().listed(recursive=False)
    for key in sorted({*(path.name for path in ray.glob("*")), *shared}):
        if Path(key).stem not in resumable:  # the file of a fault has a suffix
            folder = ray / key
            reason = "no kept run will resume from it"
            yield Garbage(folder, reason, lock_file(folder, "build"), _size(folder))


def _old_downloads() -> Iterator[Garbage]:
    for file in sorted((settings().root.resolve() / "downloads").glob("*")):
        if file.suffix != ".lock" and time.time() - file.stat().st_mtime > KEPT_DAYS * 24 * 3600:
            lock = file.with_name(f"{file.name.removesuffix('.validator')}.lock")
            yield Garbage(file, "download interrupted days ago", lock, _size(file))


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())


def _remove(path: Path) -> None:
    """Remove a file, or a folder and Prefect's result of it; also from the root's address."""
    if path.is_file():
        path.unlink()
        return
    remove_shared(path)
    (PREFECT_LOCAL_STORAGE_PATH.value() / path.name).unlink(missing_ok=True)
    if path.exists():
        remove_folder(path)
