"""Sets filled by the flow `fill-embeddings` and by `vectors.fill`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from flows.common.encoding import encode_dataset, resolve_vectors
from flows.common.parameters import CorpusParameters, DataParameters, VectorParameters
from flows.common.splits import ingest_dataset
from flows.fill_embeddings import announce, fill_embeddings
from infra.artifacts.manifest import read_manifest
from infra.artifacts.stage import result_of
from infra.errors import UserError
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import VECTORS
from tasks.embeddings.formats.store import history_of, write_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.embeddings.training.config import EmbeddingSettings
from tasks.text.build_vocabulary import VocabularyParameters
from tasks.training.run_params import vector_parameters
from tests.factories.corpus import ANIMALS, TOOLS, two_topic_sentences
from tests.factories.stages import in_flow


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusParameters:
    """A corpus of twelve words."""
    file = tmp_path / "domain.txt"
    file.write_text("\n".join(" ".join(line) for line in two_topic_sentences(60)), encoding="utf-8")
    return CorpusParameters(files=[str(file)])


@pytest.fixture
def base(tmp_path: Path) -> str:
    """The folder of a set that lacks the animals. Seven words can fit a map of one dimension."""
    folder = tmp_path / "base"
    folder.mkdir()
    vectors = np.random.default_rng(0).normal(size=(7, 1)).astype(np.float32)
    write_vectors(folder, WordSet([*TOOLS, "the", "of"], vectors), {"method": "glove"})
    return str(folder)


def test_filled_set_is_published(
    root: Path, prefect_server: None, corpus: CorpusParameters, base: str
) -> None:
    parameters: Any = {"source": base, "corpus": corpus, "min_count": 2, "name": "domain"}
    facts = result_of(fill_embeddings(**parameters, return_state=True))
    assert facts["filled"] == len(ANIMALS) and not facts["cached"]
    assert facts["files"] == [str(root / "embeddings" / "domain" / VECTORS)]
    filled, given = load_vectors(facts["files"][0]), load_vectors(f"{base}/{VECTORS}")
    kept = [filled.rows[word] for word in given.words]
    np.testing.assert_array_equal(filled.vectors[kept], given.vectors)
    with pytest.raises(UserError, match="would have no effect, because fill_with is"):
        result_of(fill_embeddings(base, facts["files"][0], corpus, return_state=True))
    rotated = fill_embeddings(base, facts["files"][0], name="rotated", return_state=True)
    assert result_of(rotated)["filled"] == len(ANIMALS)


def test_filled_vectors_reach_the_vocabulary(
    root: Path, prefect_server: None, corpus: CorpusParameters, base: str
) -> None:
    vectors = VectorParameters(
        source=base, fill="a-la-carte", corpus=corpus, training=EmbeddingSettings(min_count=2)
    )
    settings = VocabularyParameters(pretrained_words=100)

    def work() -> Any:
        return encode_dataset(ingest_dataset(DataParameters()), vectors, settings)

    encoded = in_flow(work, "encoded")
    known = load_vectors(str(encoded.vectors.folder / VECTORS)).words
    assert set(ANIMALS) < set(known), "new words are kept for later questions"
    history = history_of(encoded.vectors.folder / VECTORS)
    parameters = vector_parameters(read_manifest(encoded.vectors.folder), history)
    assert (parameters["method"], parameters["base"]) == ("a-la-carte", "base")
    assert parameters["training"]["min_count"] == 2
    made_from = read_manifest(Path(str(resolve_vectors(vectors))).parent)["made_from"]
    assert {origin["input"] for origin in made_from} == {"source", "corpus"}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "none", "fill": "a.parquet"}, "source is none; omit fill"),
        ({"source": "cbow", "fill": "a-la-carte"}, "would add no words"),
        ({"fill": "none"}, "'none' is not valid"),
        ({"fill": "alacarte"}, "unknown vectors 'alacarte'"),
        ({"fill": "a.parquet", "corpus": {"files": ["a"]}}, "corpus would have no effect"),
        ({"fill": "a-la-carte", "training": {"epochs": 3}}, "training.epochs would have no effect"),
        ({"fill": "a-la-carte", "start": "a.parquet"}, "start would have no effect"),
    ],
)
def test_rejects_settings_without_effect(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        VectorParameters.model_validate(fields)


def test_next_commands_are_quoted_for_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    counts = dict.fromkeys(("filled", "words", "dimension", "cosine", "anchors"), 1)
    facts = {"base": "glove", "method": "a-la-carte", "cached": False, "examples": []}
    announce({**facts, **counts, "files": ["my sets/vectors.parquet"]})
    printed = capsys.readouterr().out
    assert "bidaflow embeddings evaluate --vectors 'my sets/vectors.parquet'\n" in printed
    assert (
        "bidaflow retrain --data.dataset FILE --vectors.source 'my sets/vectors.parquet'\n"
        in printed
    )
