"""The benchmark of word-vector training."""

import json
from pathlib import Path

import pytest

from benchmarks.embeddings import compare, table
from tests.factories.corpus import corpus_of, two_topic_sentences


@pytest.mark.heavy
@pytest.mark.parametrize("method", ["skipgram", "fasttext"])
def test_method_is_measured_beside_gensim(tmp_path: Path, method: str) -> None:
    corpus = corpus_of(tmp_path, two_topic_sentences(40))
    facts = {"words": 800, "paragraphs": 40}
    (corpus / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    ours, bare = table(compare(corpus, [method], dimension=8, epochs=1, repeats=1))
    assert (ours["implementation"], bare["implementation"]) == ("ours", "gensim")
    assert float(ours["relative to the other"]) > 0
