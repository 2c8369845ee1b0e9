"""The words that a model knows: those of train and the first of its vectors, in evaluation and in
service."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.common.data import Splits, ingest_dataset
from flows.common.parameters import DataParameters, VectorParameters
from flows.common.vectors import Encoded, encode_dataset
from models.configs.variant import UnknownWords
from tasks.embeddings.formats.store import write_vectors
from tasks.embeddings.formats.word_vectors import Subwords, WordSet
from tasks.evaluation.evaluate import load_split
from tasks.inference.predictor import Predictor
from tasks.text.build_vocabulary import VocabularyConfig
from tasks.text.split_texts import wanted_words
from tasks.training.inputs import SplitFolders, TrainingData
from tests.factories.cli import write_dataset
from tests.factories.stages import in_flow
from tests.factories.training_data import make_job, small, train_here

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server", "root")]

FIRST = 40  # words of the set that a model knows without having seen them in training


def write_set(folder: Path, words: list[str], seed: int) -> Path:
    """A set of vectors with n-grams, whose first words are the given ones."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    subwords = Subwords(rng.standard_normal((500, 8)).astype(np.float32), 3, 4)
    vectors = rng.standard_normal((len(words), 8)).astype(np.float32)
    write_vectors(folder, WordSet(words, vectors, subwords), {"method": "fasttext"})
    subwords.save(folder)
    return folder / "vectors.parquet"


def encoded_with(source: str, splits: Splits, compose_oov: bool) -> Encoded:
    """The splits, encoded with a model's vocabulary."""
    return encode_dataset(
        splits,
        VectorParameters(source=source),
        VocabularyConfig(pretrained_words=FIRST),
        compose_oov,
    )


@pytest.mark.parametrize(
    ("policy", "joined"),
    [
        ("zero", False),
        ("zero", True),
        ("trainable", False),
        ("subword", False),
    ],
)
def test_words_are_the_same_in_evaluation_and_service(
    policy: UnknownWords, joined: bool, tmp_path: Path
) -> None:
    dataset = str(write_dataset(tmp_path / "own", 3, 2, 3))
    splits = in_flow(
        lambda: ingest_dataset(DataParameters(dataset=dataset, validation_share=0)), "ingest"
    )
    own = sorted(wanted_words([splits.train.folder], lower_case=True))
    unseen = sorted(wanted_words([splits.dev.folder], lower_case=True).difference(own))
    within, beyond = unseen[: FIRST // 2], unseen[FIRST // 2 :]
    assert len(beyond) > 10
    set_files = [write_set(tmp_path / "a", [*within, *own[::2], *own[1::4], *beyond], 0)]
    if joined:
        set_files.append(write_set(tmp_path / "b", [*within, *own[::3], *beyond], 1))
    source = "+".join(str(file.parent) for file in set_files)
    encoded = in_flow(lambda: encoded_with(source, splits, policy == "subword"), "encode")
    folders = {
        name: SplitFolders(split, encoded.splits[name].folder)
        for name, split in splits.folders.items()
    }
    data = TrainingData(
        vocabulary=encoded.vocabulary.folder, vectors=encoded.vectors.folder, **folders
    )
    out = train_here(tmp_path, make_job(tmp_path, data, small(unknown_words=policy)))
    words = set(pq.read_table(out / "model" / "words.parquet")["word"].to_pylist())
    assert words >= set(within) and not words & set(beyond)

    dev = load_split(data.dev.ingested)
    pairs = [(dev.questions[row], dev.context(row)) for row in range(len(dev))]
    served = Predictor.load(out / "model").answer(pairs)
    predicted = pq.read_table(out / "predictions.parquet").to_pydict()
    assert predicted["id"] == dev.ids
    assert predicted["prediction"] == [row["answer"] for row in served]
    probabilities = np.array([row["no_answer_probability"] for row in served])
    np.testing.assert_allclose(probabilities, predicted["no_answer_probability"], rtol=1e-4)
    assert len(set(probabilities.round(6))) > len(dev) / 2, "the words of a question matter"
