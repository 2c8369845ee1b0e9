"""Retention of runs, and garbage collection of data that no kept run refers to: stages, remains of
killed stages, report pages, Ray storage of ended trainings, and abandoned downloads.

Kept are the stages that trained a run which is not deleted in MLflow, those that an unfinished run
reads, the stages of each flow's newest successful run, and all their ancestors. Data in use by an
active flow run is kept, too.
"""

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect.settings import PREFECT_LOCAL_STORAGE_PATH

from infra.artifacts.in_use import stages_of_newest_runs
from infra.artifacts.locks import exclusive_lock, lock_file, lock_if_free
from infra.artifacts.manifest import Manifest, stages_folder
from infra.artifacts.shared_folder import pull, remove_shared, shared_folders
from infra.artifacts.staging import BUILDING, PRUNED, remove_folder
from infra.errors import UserError
from infra.settings import settings
from tasks.tracking.client import client_of
from tasks.tracking.lineage import (
    TRAINING_STAGE,
    FinishedStage,
    RecordedRun,
    ancestors,
    finished_stages,
    recorded_runs,
)

CHECKPOINTED_STAGES = (TRAINING_STAGE, "train-language-model")
VECTORS_TRAINING = "train-embeddings"  # a flow, and its stage
STALE_SECONDS = 3 * 24 * 3600
RETIRED = "bidaflow.retired"  # tag of runs that retention deletes
LOCKS_AT_ONCE = 256  # each lock is an open file, and their number is limited


def retire(
    uri: str, experiment: str, keep: int, kept_stages: Collection[str] = ()
) -> list[RecordedRun]:
    """Delete the MLflow runs of all but the `keep` newest flow runs of an experiment, with their
    models. Returns the deleted runs.

    Kept are runs whose model has an alias (champion, previous, or a user's own), runs of the
    `kept_stages` (<stage>/<key>), runs whose stage an active flow run uses, and runs that are still
    running. At an address, new ones are kept as well. With a local database, the artifacts of
    deleted runs are removed too, also those that an interrupted call has left. One process at a
    time does so: two would fail to delete the same runs.
    """
    lock = settings().root.resolve() / "locks" / "retention"
    with exclusive_lock(lock, "Another run removes old runs; waiting for it to finish."):
        if _is_local(uri):
            _erase_rest(uri, experiment)
        return _retire(uri, experiment, keep, kept_stages)


def _retire(
    uri: str, experiment: str, keep: int, kept_stages: Collection[str]
) -> list[RecordedRun]:
    runs = [run for run in recorded_runs(uri) if run.experiment == experiment]
    parents = [run for run in runs if run.parent is None]
    retired: list[RecordedRun] = []
    for parent in parents[keep:]:
        if _keeps_stages(parent):
            continue
        variants = [run for run in runs if run.parent == parent.id]
        with ExitStack() as held:
            locks = {_use_lock(run.stage) for run in variants}
            unused = {lock for lock in locks if held.enter_context(lock_if_free(lock))}
            free = [
                run
                for run in variants
                if not _is_protected(run)
                and f"{TRAINING_STAGE}/{run.stage}" not in kept_stages
                and _use_lock(run.stage) in unused
            ]
            if len(free) == len(variants) and not _is_protected(parent):
                free.append(parent)
            if promoted := [run for run in free if _has_alias(uri, run)]:
                free = [run for run in free if run not in (*promoted, parent)]
            for run in free:
                _delete(uri, run)
        retired += free
    return retired


def _keeps_stages(parent: RecordedRun) -> bool:
    """Whether the store may keep the stages of a flow run: at an address, new ones. Without their
    models, a run with the same settings would find a training whose model is gone."""
    # Stages are new for the time limit, and a flow can finish the last one at the end of its own.
    started = datetime.fromisoformat(parent.started)
    return (
        settings().address is not None and _hours_since(started) < 2 * settings().time_limit_hours
    )


def _is_protected(run: RecordedRun) -> bool:
    return run.status == "RUNNING" or any("@" in model for model in run.models)


def _has_alias(uri: str, run: RecordedRun) -> bool:
    """Whether a model of a run has an alias by now; a user may have promoted it meanwhile."""
    client = client_of(uri)
    versions = (client.get_model_version(*model.rsplit("/", 1)) for model in run.models)
    return any(version.aliases for version in versions)


def _use_lock(trained: str | None) -> Path:
    """The lock of the stage with this key that trained a variant."""
    return lock_file(stages_folder() / TRAINING_STAGE / str(trained), "use")


def _delete(uri: str, run: RecordedRun) -> None:
    client = client_of(uri)
    client.set_tag(run.id, RETIRED, "true")
    for model in run.models:
        client.delete_model_version(*model.rsplit("/", 1))
    experiment = client.get_run(run.id).info.experiment_id
    for logged in client.search_logged_models([experiment], f"source_run_id = '{run.id}'"):
        client.delete_logged_model(logged.model_id)
    client.delete_run(run.id)
    if _is_local(uri):
        _erase(uri, run.id)


def _is_local(uri: str) -> bool:
    return uri.startswith("sqlite:")


def _erase_rest(uri: str, experiment: str) -> None:
    """Erase the runs that retention has deleted, but not erased before it was interrupted.

    Runs that a user deleted lack the tag.
    """
    from mlflow.entities import ViewType

    client = client_of(uri)
    existing = client.get_experiment_by_name(experiment)
    if existing is not None:
        own = f"tags.`{RETIRED}` = 'true'"
        for run in client.search_runs([existing.experiment_id], own, ViewType.DELETED_ONLY):
            _erase(uri, run.info.run_id)


def _erase(uri: str, run_id: str) -> None:
    """Remove a deleted run and its deleted models for good, with their artifacts.

    `mlflow gc` would also remove all experiments and models that a user deleted and may still
    restore: it can't be limited to these.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
    from mlflow.tracking._tracking_service.utils import _get_store

    store: Any = _get_store(uri)
    for model_id in store._get_deleted_logged_models():
        model = store.get_logged_model(model_id, allow_deleted=True)
        if model.source_run_id == run_id:
            repository = get_artifact_repository(model.artifact_location, tracking_uri=uri)
            repository.delete_artifacts()
            store._hard_delete_logged_model(model_id)
    artifacts = store.get_run(run_id).info.artifact_uri
    get_artifact_repository(artifacts, tracking_uri=uri).delete_artifacts()
    store._hard_delete_run(run_id)


@dataclass(frozen=True)
class Garbage:
    """A folder or file that can be removed once its lock is free."""

    path: Path
    reason: str
    lock: Path
    published_bytes: int = 0  # of what is only at the root's address

    @property
    def bytes(self) -> int:
        if self.published_bytes:
            return self.published_bytes
        files = [self.path, *self.path.rglob("*")]
        return sum(file.stat().st_size for file in files if file.is_file())

    @property
    def in_use(self) -> bool:
        with lock_if_free(self.lock) as free:
            return not free


def find_garbage(uri: str, checkpoints: bool = False) -> list[Garbage]:
    """All removable folders and files, given the runs that MLflow keeps at `uri`; with
    `checkpoints`, also those from which interrupted runs could resume.

    Raises:
        UserError: the MLflow server does not respond, or the store has none of the trainings.
    """
    stages = finished_stages()
    trained = _logged_trainings(stages)
    known = {run.stage for run in recorded_runs(uri, include_deleted=True)}
    # A wrong or missing store keeps no run, so that all trainings would be removed.
    if trained and not trained & known:
        raise UserError(
            f"None of the {len(trained)} trainings under {settings().root} is recorded in the "
            "current MLflow store, so pruning would remove all of them. Set "
            "BIDAFLOW_MLFLOW_TRACKING_URI to the store that has their runs."
        )
    runs = recorded_runs(uri)
    resumable = [run for run in runs if run.status == "RUNNING" or not checkpoints]
    return [
        *_unreferenced(stages, runs),
        *_interrupted(),
        *_old_reports(runs),
        *_ended_trainings(stages, resumable),
        *_stale_downloads(),
    ]


def _logged_trainings(stages: Mapping[str, FinishedStage]) -> set[str]:
    """The keys of the stages that trained a model, a language model or word vectors, and logged it.

    Word vectors are logged by the flow `train-embeddings`, but not if another flow trains them.
    """
    vectors = stages_of_newest_runs(VECTORS_TRAINING)
    return {
        stage.folder.name
        for name, stage in stages.items()
        if stage.folder.parent.name in CHECKPOINTED_STAGES
        or (stage.folder.parent.name == VECTORS_TRAINING and name in vectors)
    }


def prune(uri: str, checkpoints: bool = False) -> list[Garbage]:
    """Remove all garbage, as `find_garbage` lists it, that is not in use. Returns what was removed.

    Raises:
        UserError: as `find_garbage` does.
    """
    locks = sorted({item.lock for item in find_garbage(uri, checkpoints)})
    batches = [locks[i : i + LOCKS_AT_ONCE] for i in range(0, len(locks), LOCKS_AT_ONCE)]
    return [removed for batch in batches for removed in _remove_unlocked(batch, uri, checkpoints)]


def _remove_unlocked(locks: Iterable[Path], uri: str, checkpoints: bool) -> list[Garbage]:
    """Take all free locks, list the garbage again, and remove the items whose lock is held.

    Listing after locking protects data that a flow has begun to use or a new run refers to.
    """
    with ExitStack() as held:
        free = {lock for lock in locks if held.enter_context(lock_if_free(lock))}
        removed = [item for item in find_garbage(uri, checkpoints) if item.lock in free]
        for item in removed:
            _remove(item.path)
    return removed


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
        if settings().address is not None and _age(manifest) < settings().time_limit_hours:
            continue
        size = 0 if folder.exists() else sum(f["bytes"] for f in manifest["files"].values())
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


def _age(manifest: Manifest) -> float:
    """Hours since a stage was finished."""
    return _hours_since(datetime.fromisoformat(manifest["finished"]))


def _hours_since(moment: datetime) -> float:
    return (datetime.now(UTC) - moment).total_seconds() / 3600


def _interrupted() -> Iterator[Garbage]:
    for folder in sorted(stages_folder().glob(f"*/{BUILDING}*")):
        final = folder.with_name(folder.name.removeprefix(BUILDING))
        yield Garbage(folder, "interrupted while it was built", lock_file(final, "build"))
    for folder in sorted(stages_folder().glob(f"*/{PRUNED}*")):
        final = folder.with_name(folder.name.removeprefix(PRUNED))
        yield Garbage(folder, "interrupted while it was removed", lock_file(final, "use"))


def _old_reports(runs: Iterable[RecordedRun]) -> Iterator[Garbage]:
    """The pages of flow runs of whose variants no run is kept. Their records stay: small files
    beside the folders, with which later runs are compared."""
    kept = {run.stage for run in runs}
    reports = settings().root.resolve() / "reports"
    pull(reports)
    for folder in sorted(reports.glob("*/*/")):
        record = folder.with_name(f"{folder.name.removeprefix(PRUNED)}.json")
        stages = _stages_in(record) if record.is_file() else []
        if stages and not kept.intersection(stages):
            yield Garbage(folder, "report of removed models", _use_lock(stages[0]))


def _stages_in(record: Path) -> list[str]:
    """The keys of the stages that trained a flow run's variants; none if it is unreadable."""
    try:
        return [variant["stage"] for variant in json.loads(record.read_bytes())["variants"]]
    except (ValueError, LookupError, TypeError):
        return []


def _ended_trainings(
    stages: Mapping[str, FinishedStage], resumable: Iterable[RecordedRun]
) -> Iterator[Garbage]:
    """Ray storage of trainings that will not be resumed."""
    keys = {run.stage for run in resumable}
    ray = settings().root.resolve() / "ray"
    for folder in sorted({*ray.glob("*/"), *(ray / name for name in shared_folders("ray"))}):
        finals = [
            stages_folder() / stage / folder.name for stage in (*CHECKPOINTED_STAGES, "answer")
        ]
        ended = [final for final in finals if f"{final.parent.name}/{final.name}" in stages]
        building = [f for f in finals if f.with_name(f"{BUILDING}{f.name}").exists()]
        if ended or folder.name not in keys:
            final = [*ended, *building, *finals][0]
            yield Garbage(folder, "no kept run will resume from it", lock_file(final, "build"))


def _stale_downloads() -> Iterator[Garbage]:
    for file in sorted((settings().root.resolve() / "downloads").glob("*")):
        if file.suffix != ".lock" and time.time() - file.stat().st_mtime > STALE_SECONDS:
            lock = file.with_name(f"{file.name.removesuffix('.validator')}.lock")
            yield Garbage(file, "download interrupted days ago", lock)


def _remove(path: Path) -> None:
    """Remove a file, or a folder and Prefect's result of it; also from the root's address."""
    if path.is_file():
        path.unlink()
        return
    remove_shared(path)
    (PREFECT_LOCAL_STORAGE_PATH.value() / path.name).unlink(missing_ok=True)
    if path.exists():
        remove_folder(path)
