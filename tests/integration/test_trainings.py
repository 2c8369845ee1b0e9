"""The flow `retrain` on a running Ray cluster: presets, word vectors, rejected requests."""

import json
from pathlib import Path
from typing import Any

import mlflow
import pyarrow.parquet as pq
import pytest

from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    VectorParameters,
)
from flows.retrain import retrain
from infra.artifacts.stage import result_of
from infra.cluster.allotment import Resources
from infra.errors import UserError
from infra.settings import settings
from models.configs.presets import PRESETS
from tasks.embeddings.formats.store import load_word_vectors, read_vectors
from tasks.embeddings.formats.word_vectors import Subwords
from tests.factories.cli import write_dataset
from tests.factories.corpus import two_topic_sentences

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("prefect_server", "ray_cluster", "root"),
]

WITH_CHARACTERS = [
    name
    for name, variant in PRESETS.items()
    if variant.model.characters and not variant.model.contextual
]
SMALL = TrainingParameters(epochs=1, hidden_size=8)


@pytest.fixture
def data(tmp_path: Path) -> DataParameters:
    return DataParameters(dataset=str(write_dataset(tmp_path / "own", 2, 1, 3)))


def run(data: DataParameters, *variants: str, **parameters: Any) -> Any:
    """The result of the flow with one CPU for each worker."""
    defaults: dict[str, Any] = {"training": SMALL, "resources": Resources(cpus_per_worker=1)}
    state = retrain(data, variants=list(variants), **(defaults | parameters), return_state=True)
    return result_of(state)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        # More than any machine has.
        (
            {"resources": Resources(workers=1024, cpus_per_worker=1024)},
            r"1024 worker\(s\) with 1024 CPU",
        ),
        ({"resources": Resources(workers=1024, gpu=True)}, r"the cluster has \d+ GPU\(s\)"),
        ({"training": TrainingParameters(max_context_tokens=3)}, "max_context_tokens"),
    ],
)
@pytest.mark.full
def test_rejects_what_the_cluster_or_the_data_lack(
    data: DataParameters, parameters: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        run(data, "char", **parameters)


@pytest.mark.parametrize(
    ("names", "source"),
    [
        # This preset uses no word vectors, so a missing file is not an error.
        pytest.param(["char-only"], "gone.txt", marks=pytest.mark.full),
        pytest.param(WITH_CHARACTERS, "glove-6b-50d", marks=pytest.mark.full),
    ],
)
def test_trains_presets_by_name(
    data: DataParameters, root: Path, names: list[str], source: str
) -> None:
    training = TrainingParameters(epochs=1, hidden_size=8)
    run(data, *names, training=training, vectors=VectorParameters(source=source))
    configs = [
        json.loads(file.read_text(encoding="utf-8"))
        for file in (root / "stages" / "train").glob("*/config.json")
    ]
    assert {config["name"] for config in configs} == set(names)
    assert {config["model"]["hidden_size"] for config in configs} == {8}


@pytest.mark.full
def test_composes_oov_words_in_training_and_serving(
    data: DataParameters, root: Path, tmp_path: Path
) -> None:
    """The set is trained first, on a corpus with next to none of the dataset's words."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(
        "\n".join(" ".join(line) for line in two_topic_sentences(60)), encoding="utf-8"
    )
    vectors = VectorParameters(
        source="fasttext",
        corpus_files=[str(corpus)],
        dimension=8,
    )
    subword = TrainingParameters(epochs=1, hidden_size=8, unknown_words="subword")
    run(data, "baseline", vectors=vectors, training=subword)

    (selected,) = (file.parent for file in root.glob("stages/select-vectors/*/vectors.parquet"))
    (vocabulary,) = (file.parent for file in root.glob("stages/build-vocabulary/*/words.parquet"))
    words = pq.read_table(vocabulary / "words.parquet")["word"].to_pylist()
    assert "where" in words and "where" not in read_vectors(selected)[0].to_pylist()
    matrix, subwords = load_word_vectors(vocabulary, selected, "subword"), Subwords.load(selected)
    assert subwords is not None
    composed = subwords.vector("where")
    assert composed.any() and (matrix[words.index("where")] == composed).all()

    mlflow.set_tracking_uri(settings().tracking_uri)
    model = mlflow.pyfunc.load_model("models:/bidaf-own/1")
    questions = [
        {"question": "Where was it?", "context": f"It was seen in {name}."}
        for name in ("Xyzzyvale", "Quuxborough", "Xyzzyvale")
    ]
    scores = [row["probability"] for row in model.predict(questions)]
    assert not {"xyzzyvale", "quuxborough"} & set(words)
    assert scores[0] == pytest.approx(scores[2]) and scores[0] != pytest.approx(scores[1])
