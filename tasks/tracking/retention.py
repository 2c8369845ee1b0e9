"""Retention: keeps a dataset's newest flow runs, and all models with an alias."""

import subprocess
import sys
from collections.abc import Collection, Sequence

from tasks.tracking.client import client_of
from tasks.tracking.run_records import RecordedRun, recorded_runs


def retire(
    uri: str, experiment: str, keep: int, kept_stages: Collection[str] = ()
) -> list[RecordedRun]:
    """Delete the MLflow runs of all but the `keep` newest flow runs of an experiment, with their
    models. Returns the deleted runs.

    Kept are runs whose model has an alias (champion, previous, or a user's own), runs of the
    `kept_stages` (<stage>/<key>), and runs that are still running. With a local database, the
    artifacts of deleted runs are removed too.
    """
    runs = [run for run in recorded_runs(uri) if run.experiment == experiment]
    parents = [run for run in runs if run.parent is None]
    retired: list[RecordedRun] = []
    for parent in parents[keep:]:
        variants = [run for run in runs if run.parent == parent.id]
        free = [
            run
            for run in variants
            if not _is_protected(run) and f"train/{run.stage}" not in kept_stages
        ]
        retired += free
        if len(free) == len(variants) and not _is_protected(parent):
            retired.append(parent)
    _delete(uri, retired)
    return retired


def _is_protected(run: RecordedRun) -> bool:
    return run.status == "RUNNING" or any("@" in model for model in run.models)


def _delete(uri: str, runs: Sequence[RecordedRun]) -> None:
    client = client_of(uri)
    for run in runs:
        for model in run.models:
            name, version = model.rsplit("/", 1)
            source = client.get_model_version(name, version).source
            client.delete_model_version(name, version)
            client.delete_logged_model(str(source).removeprefix("models:/"))
        client.delete_run(run.id)
    if runs and uri.startswith("sqlite:"):
        command = ["gc", "--backend-store-uri", uri, "--run-ids", ",".join(run.id for run in runs)]
        subprocess.run([sys.executable, "-m", "mlflow", *command], check=True, capture_output=True)
