"""The flow `retrain` on a Ray cluster that is there already: presets, word vectors, refusals."""

import json
from pathlib import Path
from typing import Any

import mlflow
import pyarrow.parquet as pq
import pytest

from flows.common.parameters import (
    CharacterParameters,
    CorpusParameters,
    DataParameters,
    TrainingParameters,
    VectorParameters,
)
from flows.retrain import retrain
from infra.artifacts.stage import result_of
from infra.errors import UserError
from infra.ray_cluster import Resources
from infra.settings import settings
from models.configs.presets import PRESETS
from tasks.embeddings.formats.matrix import load_word_vectors
from tasks.embeddings.formats.store import read_vectors
from tasks.embeddings.formats.word_vectors import Subwords
from tasks.embeddings.training.config import EmbeddingSettings
from tests.factories.cli import write_dataset
from tests.factories.corpus import worlds

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("prefect_server", "ray_cluster", "root"),
]

WITH_CHARACTERS = [name for name, variant in PRESETS.items() if variant.model.characters]
SMALL = TrainingParameters(epochs=1, hidden_size=8)


@pytest.fixture
def data(tmp_path: Path) -> DataParameters:
    return DataParameters(dataset=str(write_dataset(tmp_path / "own", 2, 1, 3)))


def run(data: DataParameters, *variants: str, **parameters: Any) -> Any:
    """The result of the flow with one CPU for each worker."""
    given: dict[str, Any] = {"training": SMALL, "resources": Resources(cpus_per_worker=1)}
    state = retrain(data, variants=list(variants), **(given | parameters), return_state=True)
    return result_of(state)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"resources": Resources(workers=64, cpus_per_worker=1)}, r"64 worker\(s\) with 1 CPU"),
        ({"resources": Resources(gpu=True)}, r"0 GPU\(s\)"),
        ({"vectors": VectorParameters(source="gone.txt")}, r"gone\.txt"),
        ({"training": TrainingParameters(max_context_tokens=3)}, "max_context_tokens"),
    ],
)
def test_refuses_what_it_cannot_train(
    data: DataParameters, parameters: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        run(data, "char", **parameters)


@pytest.mark.parametrize(
    ("names", "source"),
    [
        # It reads no word vectors, so the file of them is not even looked for.
        pytest.param(["char-only"], "gone.txt", marks=pytest.mark.full),
        pytest.param(WITH_CHARACTERS, "glove-6b-50d", marks=pytest.mark.full),
    ],
)
def test_trains_presets_by_name(
    data: DataParameters, root: Path, names: list[str], source: str
) -> None:
    characters = CharacterParameters(max_characters=12)
    training = TrainingParameters(epochs=1, hidden_size=8, characters=characters)
    run(data, *names, training=training, vectors=VectorParameters(source=source))
    configs = [
        json.loads(file.read_text(encoding="utf-8"))
        for file in (root / "stages" / "train").glob("*/config.json")
    ]
    assert {config["name"] for config in configs} == set(names)
    assert {config["model"]["characters"]["max_characters"] for config in configs} == {12}


def test_composes_oov_words_in_training_and_serving(
    data: DataParameters, root: Path, tmp_path: Path
) -> None:
    """The set is trained first, on a corpus with next to none of the dataset's words."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(" ".join(line) for line in worlds(60)), encoding="utf-8")
    vectors = VectorParameters(
        source="fasttext",
        corpus=CorpusParameters(files=[str(corpus)]),
        training=EmbeddingSettings(dimension=8, buckets=1000),
    )
    subword = TrainingParameters(epochs=1, hidden_size=8, unknown_words="subword")
    run(data, "baseline", vectors=vectors, training=subword)

    (picked,) = (file.parent for file in root.glob("stages/select-vectors/*/vectors.parquet"))
    (vocabulary,) = (file.parent for file in root.glob("stages/build-vocabulary/*/words.parquet"))
    words = pq.read_table(vocabulary / "words.parquet")["word"].to_pylist()
    assert "where" in words and "where" not in read_vectors(picked, spelt=False)[0].to_pylist()
    matrix, subwords = load_word_vectors(vocabulary, picked, "subword"), Subwords.load(picked)
    assert subwords is not None
    composed = subwords.vector("where")
    assert composed.any() and (matrix[words.index("where")] == composed).all()

    mlflow.set_tracking_uri(settings().tracking_uri)
    model = mlflow.pyfunc.load_model("models:/bidaf-own/1")
    asked = [
        {"question": "Where was it?", "context": f"It was seen in {name}."}
        for name in ("Xyzzyvale", "Quuxborough", "Xyzzyvale")
    ]
    scores = [row["score"] for row in model.predict(asked)]
    assert not {"xyzzyvale", "quuxborough"} & set(words)
    assert scores[0] == pytest.approx(scores[2]) and scores[0] != pytest.approx(scores[1])
