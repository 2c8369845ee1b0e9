"""MLflow: runs, metrics, artifacts and the registered model. No other file but pyfunc.py uses it.

MLflow takes a second to import, so the functions import it when they are called.
"""

import json
import logging
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from infra.settings import CHECKOUT, settings
from tasks.errors import UserError
from tasks.manifests import content_digest
from tasks.model_card import model_card
from tasks.versions import git_commit

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

STEPS_PER_POINT = 10
"""So many optimisation steps are averaged into one point of the curve `train/batch_nll`."""

METRICS_PER_CALL = 1000  # MLflow's own limit

ANSWERING_PACKAGES = ("mlflow", "numpy", "pyarrow", "pydantic", "safetensors", "torch")

Status = Literal["FINISHED", "FAILED", "KILLED"]
Split = Literal["train", "validation", "dev"]


@dataclass(frozen=True)
class InputDataset:
    """Data that a run was given: where it is (path or URL), and the digest of its content."""

    name: str
    digest: str
    source: str
    context: Split


def split_datasets(name: str, splits: Mapping[Split, Path]) -> list[InputDataset]:
    """The ingested splits of a dataset, by their folders."""
    return [
        InputDataset(name, content_digest(folder), str(folder), split)
        for split, folder in splits.items()
    ]


def digest_tags(datasets: Iterable[InputDataset]) -> dict[str, str]:
    """The whole digests, of which MLflow's inputs hold the beginnings."""
    return {f"{each.context}.digest": each.digest for each in datasets}


def parent_run(
    uri: str,
    experiment: str,
    flow_run_id: str,
    flow_run_url: str | None,
    name: str,
    tags: Mapping[str, str],
) -> str:
    """Id of the one run that stands for a flow run: found and reopened, or created.

    The first call ever creates the SQLite database, which takes about a second.

    Raises:
        UserError: no server answers, or the experiment has been deleted.
    """
    _require_server(uri)
    client = client_of(uri)
    experiment_id = _experiment_id(client, uri, experiment)
    own = {"bidaflow.role": "parent", "prefect.flow_run_id": flow_run_id}
    found = _search(client, [experiment_id], own)
    own |= _flow_run_link(flow_run_url) | _git_commit()
    return _open_run(client, experiment_id, found[:1], name, {**own, **tags})


def start_variant_run(
    uri: str,
    parent_run_id: str,
    name: str,
    stage: str,
    config: Mapping[str, Any],
    tags: Mapping[str, str],
    datasets: Sequence[InputDataset],
    goes_on: bool = False,
) -> str:
    """Id of the run that trains one variant, below `parent_run_id`.

    A run of the same stage (its key) is reopened if the same flow run opened it, or if it
    failed or was killed in another; one that another flow run finished is left as it is, unless
    its training `goes_on`, since a kill came between the run's end and the stage's.
    A reopened run keeps the parameters that it has, since MLflow lets nobody change them: of equal
    content, its inputs may have come by other settings.
    """
    from mlflow.entities import Param

    client = client_of(uri)
    parent = client.get_run(parent_run_id)
    own = {"bidaflow.role": "variant", "bidaflow.stage": stage}
    broken_off = ("FAILED", "KILLED", "FINISHED") if goes_on else ("FAILED", "KILLED")
    found = [
        run
        for run in _search(client, [parent.info.experiment_id], own)
        if run.info.status in broken_off or run.data.tags["mlflow.parentRunId"] == parent_run_id
    ]
    inherited = ("prefect.flow_run_id", "prefect.flow_run_url", "git.commit", "mlflow.note.content")
    own |= {key: parent.data.tags[key] for key in inherited if key in parent.data.tags}
    own |= {"mlflow.parentRunId": parent_run_id, **tags}
    run_id = _open_run(client, parent.info.experiment_id, found[:1], name, own)
    known = found[0].data.params if found else {}
    params = [Param(k, str(v)) for k, v in flatten(config).items() if k not in known]
    client.log_batch(run_id, params=params)
    _log_inputs(client, run_id, [_dataset_input(dataset) for dataset in datasets])
    return run_id


def _log_inputs(client: "MlflowClient", run_id: str, inputs: list[Any]) -> None:
    """MLflow looks for a dataset and then creates it: of two runs that start at once, one may find
    neither and fail to create it. Its second try finds it."""
    from mlflow.exceptions import MlflowException

    try:
        client.log_inputs(run_id, inputs)
    except MlflowException:
        client.log_inputs(run_id, inputs)


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every field of a nested config, under its path joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


class EpochLogger:
    """Sends the metrics of training to a run, one call an epoch; works wherever `uri` is reached.

    Every metric's step is the optimisation step, so that all curves share one axis.
    """

    def __init__(
        self,
        uri: str,
        run_id: str,
        nlls: list[float] | None = None,
        waiting: list[list[Any]] | None = None,
    ) -> None:
        """What `nlls` and `waiting` ([name, value, milliseconds, step]) hold is sent later on. Both
        are filled and emptied in place, so that a checkpoint can hold what has not been sent."""
        self.client, self.run_id = client_of(uri), run_id
        self.nlls = [] if nlls is None else nlls
        self.waiting = [] if waiting is None else waiting

    def step(self, step: int, nll: float) -> None:
        """Take note of one optimisation step's loss (nats)."""
        self.nlls.append(nll)
        if len(self.nlls) == STEPS_PER_POINT:
            self._add(step, {"train/batch_nll": sum(self.nlls) / STEPS_PER_POINT})
            self.nlls.clear()

    def epoch(self, step: int, metrics: Mapping[str, float]) -> None:
        """Send an epoch's metrics, and the points since the last, as of optimisation `step`.

        MLflow itself tries for two minutes to reach its server. What it can't send then waits for
        the next call: a training does not end because its log is away.
        """
        from mlflow.exceptions import MlflowException

        self._add(step, metrics)
        try:
            self._send()
        except MlflowException as error:
            print(f"MLflow is away; {len(self.waiting)} metrics wait for it ({error}).", flush=True)

    def _send(self) -> None:
        from mlflow.entities import Metric

        while self.waiting:
            metrics = [Metric(*each) for each in self.waiting[:METRICS_PER_CALL]]
            self.client.log_batch(self.run_id, metrics=metrics)
            del self.waiting[:METRICS_PER_CALL]

    def _add(self, step: int, metrics: Mapping[str, float]) -> None:
        now = int(time.time() * 1000)
        self.waiting += [[name, value, now, step] for name, value in metrics.items()]


@contextmanager
def system_metrics(uri: str, run_id: str) -> Iterator[None]:
    """Log this machine's CPU, memory, disk, network and GPU use every 10 s during the block."""
    client_of(uri)
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor = SystemMetricsMonitor(run_id, resume_logging=True, tracking_uri=uri)
    monitor.start()
    try:
        yield
    finally:
        monitor.finish()


def log_artifacts(uri: str, run_id: str, files: Iterable[Path]) -> None:
    """Keep copies of the files with the run, under their own names."""
    client = client_of(uri)
    for file in files:
        client.log_artifact(run_id, str(file))


def log_text(uri: str, run_id: str, name: str, text: str) -> None:
    """Keep a text with the run, as a file of this name."""
    client_of(uri).log_text(run_id, text, name)


def read_text(uri: str, run_id: str, name: str) -> str:
    """A text that was kept with the run."""
    with tempfile.TemporaryDirectory() as folder:
        file = client_of(uri).download_artifacts(run_id, name, folder)
        return Path(file).read_text(encoding="utf-8")


def log_answerer(uri: str, run_id: str, model_folder: Path, registered_name: str, step: int) -> str:
    """Log a model folder with the code that answers from it, and register it as a new version.

    `step` is the optimisation step of its weights: the run's metrics at that step become the
    model's. Returns the version's URI; a run that has a version already keeps that one.
    """
    import mlflow.pyfunc
    from mlflow.models import Model

    client = client_of(uri)
    versions = client.search_model_versions(f"name = '{registered_name}' and run_id = '{run_id}'")
    if versions:
        return f"models:/{registered_name}/{versions[0].version}"
    run = client.get_run(run_id)
    # Made here, because `Model.log` would put it into MLflow's current experiment.
    model = client.create_logged_model(
        run.info.experiment_id, "answerer", source_run_id=run_id, params=run.data.params
    )
    mlflow.set_tracking_uri(uri)  # `Model.log` takes no URI
    Model.log(
        artifact_path=None,
        flavor=mlflow.pyfunc,
        model_id=model.model_id,
        run_id=run_id,
        step=step,
        python_model=str(CHECKOUT / "tasks" / "pyfunc.py"),
        artifacts={"model": str(model_folder)},
        model_config={"no_answer": "argmax"},
        code_paths=[str(CHECKOUT / package) for package in ("models", "tasks")],
        pip_requirements=_requirements(),
        input_example=[{"question": "Who answers?", "context": "The model answers."}],
    )
    return _register(client, registered_name, run, model.model_id)


def tag(uri: str, run_id: str, tags: Mapping[str, str]) -> None:
    """Set tags of a run."""
    from mlflow.entities import RunTag

    client_of(uri).log_batch(run_id, tags=[RunTag(key, value) for key, value in tags.items()])


def finish(uri: str, run_id: str, status: Status) -> None:
    """End a run."""
    client_of(uri).set_terminated(run_id, status)


def finish_flow_run(uri: str, flow_run_id: str, status: Status) -> None:
    """End every run that a flow run left running, as its cancellation or crash hook does."""
    client = client_of(uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    for run in _search(client, experiments, {"prefect.flow_run_id": flow_run_id}):
        if run.info.status == "RUNNING":
            client.set_terminated(run.info.run_id, status)


def run_url(uri: str, run_id: str) -> str:
    """Address of the run's page; for a SQLite file, the one that `make up` gives it."""
    experiment_id = client_of(uri).get_run(run_id).info.experiment_id
    return f"{_server(uri) or settings().mlflow_url}/#/experiments/{experiment_id}/runs/{run_id}"


def reading_client(uri: str) -> "MlflowClient":
    """A client to look runs and models up with.

    Raises:
        UserError: no server answers.
    """
    _require_server(uri)
    return client_of(uri)


def _server(uri: str) -> str | None:
    """The server's address without a user name and password; None for a file."""
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https"):
        return None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _require_server(uri: str) -> None:
    """One request without retries: MLflow's own would go on for minutes before they give up."""
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    server = _server(uri)
    if server is None:
        return
    try:
        http_request(get_default_host_creds(uri), "/health", "GET", max_retries=0, timeout=10)
    except MlflowException as error:
        raise UserError(
            f"No MLflow server answers at {server}: start it, or unset "
            "BIDAFLOW_MLFLOW_TRACKING_URI to record runs in a file."
        ) from error


def client_of(uri: str) -> "MlflowClient":
    """A client of the store, which keeps quiet."""
    from mlflow.tracking import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    return MlflowClient(uri)


def _experiment_id(client: "MlflowClient", uri: str, name: str) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        return str(
            client.create_experiment(
                name,
                artifact_location=_artifact_location(uri, name),
                tags={"mlflow.experimentKind": "custom_model_development"},  # its UI opens so
            )
        )
    if found.lifecycle_stage != "active":
        raise UserError(
            f"The MLflow experiment '{name}' has been deleted: bring it back with "
            f"`mlflow experiments restore --experiment-id {found.experiment_id}`."
        )
    return str(found.experiment_id)


def _artifact_location(uri: str, experiment: str) -> str | None:
    """Beside the SQLite file, where MLflow would choose the working directory."""
    if not uri.startswith("sqlite:///"):
        return None
    database = Path(uri.removeprefix("sqlite:///")).resolve()
    return (database.parent / "mlartifacts" / experiment).as_uri()


def _search(
    client: "MlflowClient", experiments: Sequence[str], tags: Mapping[str, str]
) -> "list[Run]":
    wanted = " and ".join(f"tags.`{key}` = '{value}'" for key, value in tags.items())
    return list(client.search_runs(experiments, wanted))


def _open_run(
    client: "MlflowClient",
    experiment_id: str,
    found: "Sequence[Run]",
    name: str,
    tags: Mapping[str, str],
) -> str:
    from mlflow.entities import RunTag

    if not found:
        return str(client.create_run(experiment_id, tags=dict(tags), run_name=name).info.run_id)
    run_id = str(found[0].info.run_id)
    client.update_run(run_id, status="RUNNING")
    client.log_batch(run_id, tags=[RunTag(key, value) for key, value in tags.items()])
    return run_id


def _flow_run_link(url: str | None) -> dict[str, str]:
    if not url:
        return {}
    return {"prefect.flow_run_url": url, "mlflow.note.content": f"[Prefect flow run]({url})"}


def _git_commit() -> dict[str, str]:
    commit = git_commit()
    return {"git.commit": commit} if commit else {}


def _dataset_input(dataset: InputDataset) -> Any:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    scheme = urlsplit(dataset.source).scheme
    kind, field = ("http", "url") if scheme in ("http", "https") else (scheme or "local", "uri")
    source = json.dumps({field: dataset.source})
    entity = Dataset(dataset.name, dataset.digest[:36], kind, source)  # 36: the column's width
    return DatasetInput(entity, [InputTag("mlflow.data.context", dataset.context)])


def _requirements() -> list[str]:
    """What answering imports, as installed; without the "+cpu" of a build that PyPI lacks."""
    return [f"{package}=={version(package).partition('+')[0]}" for package in ANSWERING_PACKAGES]


def _register(client: "MlflowClient", name: str, run: "Run", model_id: str) -> str:
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    tags = {key: value for key, value in run.data.tags.items() if not key.startswith("mlflow.")}
    card = model_card(name, run.data.params, run.data.tags, run.data.metrics)
    created = client.create_model_version(
        name,
        f"models:/{model_id}",
        run.info.run_id,
        tags=tags,
        model_id=model_id,
        description=card,
    )
    client.log_text(run.info.run_id, card, "model_card.md")
    # By this tag MLflow's page of the model names its version.
    versions = json.dumps([{"name": name, "version": created.version}])
    client.set_logged_model_tags(model_id, {"mlflow.modelVersions": versions})
    return f"models:/{name}/{created.version}"
