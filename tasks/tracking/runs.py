"""Creates, tags and ends MLflow runs, and logs their files."""

import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from infra.artifacts.manifest import content_digest, git_commit
from infra.errors import UserError, first_line
from infra.masking import mask_secrets
from infra.run_logger import logger
from infra.settings import settings
from infra.storage.mlflow_locations import FOLDER_TAG, artifacts_of
from tasks.tracking.client import ignoring, mlflow_client, require_server
from tasks.tracking.metric_logger import system_metrics

if TYPE_CHECKING:
    from mlflow.entities import Run

# MLflow and Prefect are imported locally: they take seconds to load, and Ray's workers import this
# module, but do not need Prefect.

Status = Literal["FINISHED", "FAILED", "KILLED"]
Split = Literal["train", "validation", "dev"]


@dataclass(frozen=True)
class InputDataset:
    """Input data of a run: its path, the digest of its content, and the Parquet table of its rows,
    if there is one."""

    name: str
    digest: str
    source: str
    context: Split
    table: Path | None = None


@dataclass(frozen=True)
class VariantRun:
    """What MLflow records of a variant's run when it starts."""

    name: str
    stage: str  # key of the stage that trains the variant
    config: Mapping[str, Any]  # parameters, nested
    tags: Mapping[str, str]
    datasets: Sequence[InputDataset]


def split_datasets(name: str, splits: Mapping[Split, Path]) -> list[InputDataset]:
    """The ingested splits of a dataset, by their folders."""
    return [
        InputDataset(name, content_digest(folder), str(folder), split, folder / "questions.parquet")
        for split, folder in splits.items()
    ]


def corpus_dataset(corpus: Path, digest: str) -> InputDataset:
    """A corpus that vectors or a language model were trained on, a folder of `prepare_corpus`.

    The folder may be missing on this machine.
    """
    words = corpus / "words.parquet"
    table = words if words.is_file() else None
    return InputDataset("corpus", digest, str(corpus), "train", table)


def parent_run_of(dataset: str) -> str:
    """Reopen or create the parent MLflow run of this flow run for a dataset, and return its id.

    The first call with a new SQLite database creates it, which takes about a second.

    Raises:
        UserError: the server does not respond, or the experiment has been deleted.
    """
    from prefect.runtime import flow_run

    require_server()
    experiment_id = _experiment_id(f"bidaflow/{dataset}")
    own = {"bidaflow.role": "parent", "prefect.flow_run_id": str(flow_run.id)}
    existing = _search([experiment_id], own)
    url = flow_run.ui_url or ""
    page = url if url.startswith("http") else None  # a temporary server has no pages
    optional = {
        "prefect.flow_run_url": page,
        "mlflow.note.content": page and f"[Prefect flow run]({page})",
        "git.commit": git_commit(),
    }
    own |= {"dataset": dataset} | {key: value for key, value in optional.items() if value}
    return str(_open_run(experiment_id, existing, str(flow_run.name), own).info.run_id)


def start_variant_run(parent_run_id: str, variant: VariantRun, resumed: bool = False) -> str:
    """Reopen or create the run that trains one variant, a child of `parent_run_id`. Returns its id.

    A run of the same stage (its key) is reopened if the same flow run opened it, or if it failed or
    was killed in another flow run. A run that another flow run finished is reopened only if its
    training is `resumed`, because the process was killed after the run ended but before the stage
    was complete.

    A reopened run keeps its parameters, because MLflow does not allow changes. They may differ from
    `variant.config`: different settings may produce inputs with equal content.
    """
    from mlflow.entities import Param

    client = mlflow_client()
    parent = client.get_run(parent_run_id)
    own = {"bidaflow.role": "variant", "bidaflow.stage": variant.stage}
    reopenable = ("FAILED", "KILLED", "FINISHED") if resumed else ("FAILED", "KILLED")
    existing = [
        run
        for run in _search([parent.info.experiment_id], own)
        if run.info.status in reopenable or run.data.tags["mlflow.parentRunId"] == parent_run_id
    ]
    inherited = ("prefect.flow_run_id", "prefect.flow_run_url", "git.commit", "mlflow.note.content")
    own |= {key: parent.data.tags[key] for key in inherited if key in parent.data.tags}
    # MLflow truncates the digests of run inputs, so the full ones are tags.
    digests = {f"{dataset.context}.digest": dataset.digest for dataset in variant.datasets}
    own |= {"mlflow.parentRunId": parent_run_id, **variant.tags, **digests}
    run = _open_run(parent.info.experiment_id, existing, variant.name, own)
    run_id = str(run.info.run_id)
    params = [
        Param(key, str(value))
        for key, value in flatten(variant.config).items()
        if key not in run.data.params
    ]
    client.log_batch(run_id, params=params)
    _log_inputs(run_id, variant.datasets)
    return run_id


def _log_inputs(run_id: str, datasets: Iterable[InputDataset]) -> None:
    """Log the input datasets, with one retry.

    MLflow looks up a dataset and then creates it. If two runs start at once, both lookups may miss
    it, and one run then fails to create it; its retry finds it.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.exceptions import MlflowException

    inputs = [
        DatasetInput(
            # 36 is the column's width.
            Dataset(
                data.name,
                data.digest[:36],
                "local",
                json.dumps({"uri": data.source}),
                **(_rows_and_columns(data.table) if data.table else {}),
            ),
            [InputTag("mlflow.data.context", data.context)],
        )
        for data in datasets
    ]
    try:
        mlflow_client().log_inputs(run_id, inputs)
    except MlflowException:
        mlflow_client().log_inputs(run_id, inputs)


def _rows_and_columns(table: Path) -> dict[str, str]:
    """The number of rows and the columns of a Parquet table, as MLflow's pages show them."""
    import pyarrow.parquet as pq  # slow to load, and most commands don't need it

    metadata = pq.read_metadata(table)
    columns = [
        {"name": field.name, "type": str(field.type), "required": not field.nullable}
        for field in metadata.schema.to_arrow_schema()
    ]
    return {
        "schema": json.dumps({"mlflow_colspec": columns}),
        "profile": json.dumps({"num_rows": metadata.num_rows}),
    }


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """All fields of a nested config, by their path joined with dots."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        path = f"{prefix}{key}"
        flat |= flatten(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return flat


def is_kept(run_id: str) -> bool:
    """Whether a run exists and has not been deleted."""
    with ignoring("RESOURCE_DOES_NOT_EXIST"):
        return bool(mlflow_client().get_run(run_id).info.lifecycle_stage == "active")
    return False


def require_kept(run_id: str) -> None:
    """Check that the MLflow run of a training still exists.

    Raises:
        UserError: it was deleted meanwhile.
    """
    if not is_kept(run_id):
        raise UserError(
            f"The MLflow run {run_id} was deleted during its training. Start the training again: "
            "it continues from its checkpoint, with a new run."
        )


def log_artifacts(run_id: str, files: Iterable[Path]) -> None:
    """Log files as artifacts of the run, under their own names."""
    for file in files:
        mlflow_client().log_artifact(run_id, str(file))


def log_text(run_id: str, name: str, text: str) -> None:
    """Log a text as an artifact of the run, as a file named `name`."""
    mlflow_client().log_text(run_id, text, name)


def read_text(run_id: str, name: str) -> str:
    """The content of a text artifact of the run."""
    with tempfile.TemporaryDirectory() as folder:
        file = mlflow_client().download_artifacts(run_id, name, folder)
        return Path(file).read_text(encoding="utf-8")


def tag(run_id: str, tags: Mapping[str, str]) -> None:
    """Set tags on a run."""
    from mlflow.entities import RunTag

    mlflow_client().log_batch(run_id, tags=[RunTag(key, value) for key, value in tags.items()])


def add_link(run_id: str, link: str) -> None:
    """Add a Markdown link to a run's note, once."""
    note = "mlflow.note.content"
    links = mlflow_client().get_run(run_id).data.tags.get(note, "").split(" · ")
    tag(run_id, {note: " · ".join(dict.fromkeys([*filter(None, links), link]))})


def log_scores(run_id: str, scores: Mapping[str, float], step: int = 0) -> None:
    """Log scores of a run, at an optimisation step or an epoch."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    metrics = [Metric(name, value, now, step) for name, value in scores.items()]
    mlflow_client().log_batch(run_id, metrics=metrics)


def finish(run_id: str, status: Status) -> None:
    """End a run with a status."""
    mlflow_client().set_terminated(run_id, status)


@contextmanager
def finishing_run(run_id: str) -> Iterator[None]:
    """Log system metrics during the block, then end the MLflow run with the block's outcome."""
    from mlflow.exceptions import MlflowException

    try:
        with system_metrics(run_id):
            yield
    except BaseException as error:
        try:
            finish(run_id, "FAILED" if isinstance(error, Exception) else "KILLED")
        except MlflowException as problem:  # the block's error says more
            reason = mask_secrets(first_line(problem))
            logger().warning(f"The MLflow run {run_id} was not ended: {reason}")
        raise
    finish(run_id, "FINISHED")


def has_runs(flow_run_id: str) -> bool:
    """Whether a flow run, or an earlier attempt of it, has opened MLflow runs."""
    return bool(_runs_of(flow_run_id))


def finish_flow_run(flow_run_id: str, status: Status, reason: str | None = None) -> None:
    """End all MLflow runs that a flow run left running, and tag them with the reason, if any.

    With the status KILLED, failed runs get it, too: trainings fail when their flow is killed.
    """
    ended = ("RUNNING", "FAILED") if status == "KILLED" else ("RUNNING",)
    for run in _runs_of(flow_run_id):
        if run.info.status in ended:
            if reason:
                tag(run.info.run_id, {"ended": reason})
            finish(run.info.run_id, status)


def _runs_of(flow_run_id: str) -> "list[Run]":
    experiments = [found.experiment_id for found in mlflow_client().search_experiments()]
    return _search(experiments, {"prefect.flow_run_id": flow_run_id})


def _experiment_id(name: str) -> str:
    """The id of an experiment, which is created unless there is one."""
    client, uri = mlflow_client(), settings().tracking_uri
    location, tags = None, {"mlflow.experimentKind": "custom_model_development"}  # the UI's view
    if uri.startswith("sqlite:///"):
        # Beside the SQLite file, because MLflow would use the working directory.
        artifacts = artifacts_of(uri)
        location = (artifacts / name).as_uri()
        tags[FOLDER_TAG] = str(artifacts)
    if (experiment := client.get_experiment_by_name(name)) is None:
        with ignoring("RESOURCE_ALREADY_EXISTS"):  # another run has just created it
            client.create_experiment(name, location, tags)
        experiment = client.get_experiment_by_name(name)
    if experiment.lifecycle_stage != "active":
        raise UserError(
            f"MLflow experiment '{name}' is deleted. Restore it with "
            f"`mlflow experiments restore --experiment-id {experiment.experiment_id}`."
        )
    return str(experiment.experiment_id)


def _search(experiments: Sequence[str], tags: Mapping[str, str]) -> "list[Run]":
    wanted = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
    return list(mlflow_client().search_runs(experiments, wanted))


def _open_run(
    experiment_id: str, existing: "Sequence[Run]", name: str, tags: Mapping[str, str]
) -> "Run":
    """Reopen the first of the existing runs, or create one."""
    client = mlflow_client()
    if not existing:
        return client.create_run(experiment_id, tags=dict(tags), run_name=name)
    run = existing[0]
    client.update_run(run.info.run_id, status="RUNNING")
    tag(run.info.run_id, tags)
    return run
