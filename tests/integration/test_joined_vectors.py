"""Joined sets of word vectors: trained, recorded, served and warm-started."""

from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.tracking import MlflowClient

from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    VectorParameters,
)
from flows.train import train
from infra.artifacts.manifest import facts_of
from infra.artifacts.stage import result_of
from infra.cluster.allotment import Resources
from infra.settings import settings
from tests.factories.cli import write_dataset
from tests.factories.corpus import two_topic_sentences
from tests.factories.stages import finished

pytestmark = [
    pytest.mark.full,
    pytest.mark.heavy,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("prefect_server", "ray_cluster", "root"),
]


def test_joined_sets_train_serve_and_warm_start(root: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    lines = (" ".join(line) for line in two_topic_sentences(60))
    corpus.write_text("\n".join(lines), encoding="utf-8")
    vectors = VectorParameters(
        source="glove-6b-50d+glove",
        corpus_files=[str(corpus)],
        dimension=8,
    )
    data = DataParameters(dataset=str(write_dataset(tmp_path / "own", 2, 1, 3)))

    def run(**changes: Any) -> Path:
        """The newest folder of the stage `train` after a training with these changes."""
        training = TrainingParameters(epochs=1, hidden_size=8, **changes)
        resources = Resources(cpus_per_worker=1)
        state = train(data, ["baseline"], training, vectors, resources=resources, return_state=True)
        result_of(state)
        return finished(root, "train")[-1]

    first = run()
    logged = MlflowClient(settings().tracking_uri).get_run(facts_of(first)["run_id"]).data.params
    assert logged["vectors.source"] == "glove-6b-50d+glove"
    assert (logged["vectors.method"], logged["vectors.dimension"]) == ("joined", "60")

    mlflow.set_tracking_uri(settings().tracking_uri)
    (answer,) = mlflow.pyfunc.load_model("models:/bidaf-own/1").predict(
        [{"question": "Where was it?", "context": "It was seen in Xyzzyvale."}]
    )
    assert not answer["error"]

    second = run(start_from=str(first / "model"), seed=1)
    carried = facts_of(second)["carried_over"]
    assert carried["share"] == 1
