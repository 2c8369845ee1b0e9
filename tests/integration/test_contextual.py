"""Contextual vectors from end to end: trained, resumed from the cache, recorded and served."""

import json
from pathlib import Path
from typing import Any

import mlflow
import pyarrow.parquet as pq
import pytest
from mlflow.tracking import MlflowClient

from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    VariantName,
    VectorParameters,
)
from flows.retrain import retrain
from infra.artifacts.manifest import facts_of
from infra.artifacts.stage import result_of
from infra.cluster.allotment import Resources
from infra.errors import UserError
from infra.settings import settings
from tasks.evaluation.evaluate import load_split
from tasks.inference.predictor import Predictor
from tests.factories.cli import write_dataset
from tests.factories.language_models import CONFIG, write_bilm
from tests.factories.stages import finished

pytestmark = [
    pytest.mark.full,
    pytest.mark.heavy,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("prefect_server", "ray_cluster", "root"),
]


def test_char_elmo_is_trained_recorded_and_served(root: Path, tmp_path: Path) -> None:
    write_bilm(tmp_path / "general")
    data = DataParameters(dataset=str(write_dataset(tmp_path / "own", 3, 1, 5)))

    def run(contextual: str, variants: list[VariantName], **changes: Any) -> Path:
        """The newest training of `char-elmo` after a run with these changes."""
        training = TrainingParameters(epochs=2, hidden_size=8, **changes)
        state = retrain(
            data,
            variants,
            training,
            VectorParameters(contextual=contextual),
            resources=Resources(cpus_per_worker=1),
            return_state=True,
        )
        result_of(state)
        trained = [f for f in finished(root, "train") if facts_of(f)["variant"] == "char-elmo"]
        return trained[-1]

    first = run(str(tmp_path / "general"), ["char", "char-elmo"])
    facts = facts_of(first)
    splits = len(finished(root, "split"))
    assert len(finished(root, "compute-layers")) == splits
    assert facts["mixes"]["input"]["shares"] == pytest.approx([1 / 3] * 3, abs=0.2)

    client = MlflowClient(settings().tracking_uri)
    logged = client.get_run(facts["run_id"]).data
    assert logged.params["contextual.source"] == "general/bilm.safetensors"
    assert logged.params["contextual.where"] == "input"
    assert logged.params["contextual.dimension"] == str(CONFIG.vector_size)
    (char,) = [f for f in finished(root, "train") if facts_of(f)["variant"] == "char"]
    other = client.get_run(facts_of(char)["run_id"]).data
    assert other.params["contextual.source"] == "None" and "contextual.digest" not in other.tags
    assert logged.params.keys() == other.params.keys()
    bilm = json.loads((first / "model" / "bilm.json").read_text())
    assert bilm["lower_case"] is False and len(logged.tags["contextual.digest"]) == 64

    # The served model gives the answers that the training evaluated.
    predicted = pq.read_table(first / "predictions.parquet")
    dev = next(
        split
        for split in map(load_split, [*finished(root, "split"), *finished(root, "ingest")])
        if split.ids == predicted["id"].to_pylist()
    )
    pairs = [(question, dev.context(row)) for row, question in enumerate(dev.questions)]
    mlflow.set_tracking_uri(settings().tracking_uri)
    served = mlflow.pyfunc.load_model(facts["model_uri"]).predict(
        [{"question": question, "context": context} for question, context in pairs]
    )
    assert [row["answer"] for row in served] == predicted["prediction"].to_pylist()
    assert [row["no_answer_probability"] for row in served] == pytest.approx(
        predicted["no_answer_probability"].to_numpy(), rel=0.02
    )
    answers = Predictor.load(first / "model").answer(pairs)
    assert [row["answer"] for row in answers] == [row["answer"] for row in served]

    # A warm start needs the same language model.
    second = run(str(tmp_path / "general"), ["char-elmo"], start_from=facts["model_uri"], seed=1)
    carried = facts_of(second)["carried_over"]
    assert carried["share"] == 1 and "mixes.input.weights" in carried["parameters"]
    write_bilm(tmp_path / "other", seed=1)
    with pytest.raises(UserError, match="another language model"):
        run(str(tmp_path / "other"), ["char-elmo"], start_from=str(second / "model"))
