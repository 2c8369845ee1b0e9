"""The benchmark of word-vector training: what it loads and which word pairs it counts."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.embeddings import compare, sample_pairs, table, torch_glove
from infra.settings import CHECKOUT
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.embeddings.training.corpus import read_vocabulary
from tests.factories.corpus import corpus_of, two_topic_sentences

LOAD_MEASURED_MODULES = """
import sys, benchmarks.embeddings, gensim.models
import tasks.embeddings.training.glove, tasks.embeddings.training.word2vec
sys.exit(" ".join({"torch", "prefect"} & set(sys.modules)) or None)
"""


def test_measured_process_loads_no_unused_packages() -> None:
    subprocess.run([sys.executable, "-c", LOAD_MEASURED_MODULES], check=True, cwd=CHECKOUT)


def test_torch_glove_pairs_match_the_corpus(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, two_topic_sentences(40))
    parameters = EmbeddingParameters(method="glove", min_count=1, dimension=4)
    words = list(read_vocabulary(corpus, 1))
    pairs = sample_pairs(corpus, words, parameters)
    sampled = {(words[i], words[j]) for i, j in np.stack([pairs["i"], pairs["j"]], 1)}
    assert {("badger", "otter"), ("otter", "badger")} <= sampled
    assert ("badger", "hammer") not in sampled
    assert torch_glove(corpus, {}, parameters)["pairs_per_second"] > 0


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A prepared corpus with its facts."""
    corpus = corpus_of(tmp_path, two_topic_sentences(40))
    facts = {"words": 800, "paragraphs": 40}
    (corpus / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    return corpus


@pytest.mark.heavy
@pytest.mark.parametrize("method", ["skipgram", "fasttext"])
def test_method_is_measured_beside_gensim(corpus: Path, method: str) -> None:
    ours, bare = table(compare(corpus, [method], dimension=8, epochs=1, repeats=1))
    assert (ours["implementation"], bare["implementation"]) == ("ours", "gensim")
    assert float(ours["relative to the other"]) > 0
