"""Sets of vectors whose words are looked up in another case than they were learnt in."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.compare import compare_variants
from flows.ingest import ingest_dataset
from flows.judge_embeddings import judge_embeddings
from flows.parameters import CorpusParameters, DataParameters, VectorParameters
from flows.retrain import retrain
from flows.train_embeddings import train_set
from flows.vocabulary import build_vocabulary, encode_dataset
from tasks.embeddings.parameters import EmbeddingParameters
from tasks.embeddings.wordset import WordSet
from tasks.errors import UserError
from tasks.stages import result_of
from tasks.vectors import write_vectors
from tasks.vocabulary import VocabularyParameters
from tests.tasks.pipeline import in_flow


@pytest.mark.heavy
@pytest.mark.parametrize("learnt", [True, pytest.param(False, marks=pytest.mark.full)])
def test_vectors_are_not_trained_in_another_case_than_they_are_looked_up_in(
    root: Path, prefect_server: None, learnt: bool
) -> None:
    corpus = CorpusParameters(files=["texts/"], lower_case=learnt)
    vectors = VectorParameters(source="skipgram", corpus=corpus)
    asked: dict[str, Any] = {"vocabulary": VocabularyParameters(lower_case=not learnt)}
    told = f"vectors.corpus.lower_case is {learnt} and vocabulary.lower_case is {not learnt}"
    for state in (
        retrain(vectors=vectors, **asked, return_state=True),
        compare_variants(vectors=[VectorParameters(), vectors], **asked, return_state=True),
        build_vocabulary(vectors=vectors, **asked, return_state=True),
    ):
        with pytest.raises(UserError, match=told):
            result_of(state)
    assert not list(root.glob("stages/*")), "told before anything runs"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("learnt", "warned"),
    [(True, True), pytest.param(False, False, marks=pytest.mark.full), (None, False)],
)
def test_a_set_of_another_case_is_told_of(
    root: Path,
    prefect_server: None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    learnt: bool | None,
    warned: bool,
) -> None:
    history: dict[str, Any] = {"method": "cbow"}
    if learnt is not None:
        history["lower_case"] = learnt
    write_vectors(tmp_path, WordSet(["the", "is"], np.eye(2, dtype=np.float32)), history)
    spec = str(tmp_path / "vectors.parquet")
    asked = VectorParameters(source=spec), VocabularyParameters(lower_case=False)
    (tmp_path / "text.txt").write_text("the cat is the cat\n" * 9, encoding="utf-8")
    corpus = CorpusParameters(files=[str(tmp_path / "text.txt")], lower_case=False)
    embedding = EmbeddingParameters(method="cbow", dimension=2, min_count=1)
    with caplog.at_level(logging.WARNING):
        in_flow(lambda: encode_dataset(ingest_dataset(DataParameters()), *asked), "encoded")
        result_of(judge_embeddings([spec], lower_case=False, return_state=True))
        in_flow(lambda: train_set(corpus, embedding, spec), "going on")
    told = [text for text in caplog.messages if "were trained with lower_case True" in text]
    fields = ("vocabulary.lower_case", "lower_case", "corpus.lower_case") if warned else ()
    assert len(told) == len(fields)
    for text, field in zip(told, fields, strict=True):
        assert f"and {field} is False" in text and f"set {field} to True." in text
