"""A pipeline of three small stages; MLflow records the last one, like a real training."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from mlflow.tracking import MlflowClient
from prefect import flow

from infra.artifacts.in_use import used_by_flow
from infra.artifacts.manifest import read_manifest
from infra.artifacts.stage import Stage
from infra.settings import settings
from tasks.tracking import runs
from tests.factories.tracking_store import parent_run

T = TypeVar("T")


def finished(root: Path, stage: str) -> list[Path]:
    """The outputs of a stage below a storage root, the newest last."""
    folders = [file.parent for file in root.glob(f"stages/{stage}/*/manifest.json")]
    return sorted(folders, key=lambda folder: str(read_manifest(folder)["finished"]))


def read(out: Path, files: list[Path]) -> dict[str, Any]:
    words = [word for file in files for word in file.read_text().split()]
    pq.write_table(pa.table({"word": words}), out / "words.parquet")
    return {"words": len(words)}


def count(out: Path, words: Path, least: int) -> dict[str, Any]:
    table = pq.read_table(words / "words.parquet")["word"].value_counts().to_pylist()
    (out / "counts.json").write_text(json.dumps([e for e in table if e["counts"] >= least]))
    return {}


def train(out: Path, words: Path, counts: Path) -> dict[str, Any]:
    parent = parent_run(out.name, "words")
    run = runs.VariantRun("char", out.name, {}, {"train.digest": "abc"}, [])
    run_id = runs.start_variant_run(parent, run)
    for finished in (run_id, parent):
        runs.finish(finished, "FINISHED")
    (out / "model.json").write_text("of " + (counts / "counts.json").read_text())
    return {"run_id": run_id, "parent": parent}


reading, counting, training = (
    Stage(read, "read", code="infra.errors"),
    Stage(count, "count", code="infra.errors"),
    Stage(train, "train", code="infra.errors"),
)


@dataclass(frozen=True)
class Trained:
    """The folders of the three stages, and the ids of the MLflow run and of its parent."""

    words: Path
    counts: Path
    model: Path
    run_id: str
    parent: str


def in_flow(work: Callable[[], T], name: str) -> T:
    """The result of the work in a flow run, which keeps its stages in use until it ends."""

    def body() -> T:
        with used_by_flow():
            return work()

    return flow(body, name=name)()


def trained(files: list[Path], least: int, name: str = "words") -> Trained:
    """Run the pipeline in a flow."""

    def work() -> Trained:
        words = reading(files).folder
        counts = counting(words, least).folder
        model = training(words, counts)
        return Trained(words, counts, model.folder, model.facts["run_id"], model.facts["parent"])

    return in_flow(work, name)


def register(run_id: str, name: str, alias: str) -> None:
    """Register the model of a run, with an alias."""
    client = MlflowClient(settings().tracking_uri)
    client.create_registered_model(name)
    version = client.create_model_version(name, f"runs:/{run_id}/model", run_id)
    client.set_registered_model_alias(name, alias, version.version)
