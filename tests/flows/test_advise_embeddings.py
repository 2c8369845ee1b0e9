"""The flow `advise-embeddings`: its numbers, its advice, and what the command prints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.advise_embeddings import OWN_TEXTS, advise_embeddings, announce, commands
from flows.common.parameters import CorpusParameters
from infra.artifacts.stage import result_of
from tasks.datasets.tiny import generate
from tasks.embeddings.formats.store import write_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.text.tokenizer import tokenize
from tests.factories.cli import write_dataset


@pytest.mark.heavy
def test_advice_on_invented_names(
    root: Path, prefect_server: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every name is invented: GloVe lacks them, and a set that has them fills all."""
    data = write_dataset(tmp_path / "own")
    texts = [
        text
        for split in generate(3, 4, 2, 4)
        for article in split["data"]
        for paragraph in article["paragraphs"]
        for text in (paragraph["context"], *(qa["question"] for qa in paragraph["qas"]))
    ]
    words = sorted({t[start:end].lower() for t in texts for start, end in tokenize(t)})
    (tmp_path / "domain").mkdir()
    vectors = np.random.default_rng(0).normal(size=(len(words), 60)).astype(np.float32)
    write_vectors(tmp_path / "domain", WordSet(words, vectors), {"method": "glove"})
    sets = ["glove-6b-50d", str(tmp_path / "domain")]
    advice: dict[str, Any] = result_of(
        advise_embeddings(dataset=str(data), vectors=sets, return_state=True)
    )
    coverage = advice["coverage"]
    assert set(coverage) == {"glove-6b-50d", f"with {OWN_TEXTS}", "with domain", "with all"}
    assert coverage["glove-6b-50d"]["missing"] > 0.9 * advice["questions"]
    assert coverage["with domain"]["missing"] == 0
    by_name = {source["name"]: source for source in advice["sources"]}
    assert by_name["domain"]["share_of_missing"] == 1
    assert by_name[OWN_TEXTS]["kind"] == "corpus"
    announce(advice)
    printed = capsys.readouterr().out
    for part in ("Missing    ", "terms placed", "keep the set as it is", "Next       bidaflow"):
        assert part in printed, printed


def test_commands_name_the_sources() -> None:
    found = commands(
        "tickets.json",
        ["main.txt", "own.vec"],
        ["main", "own"],
        CorpusParameters(files=["a/", "b/"], dataset="tickets.json"),
        300,
    )
    start = "bidaflow retrain --data.dataset tickets.json --vectors.source main.txt"
    assert found["keep the set as it is"] == start
    assert found["fill a-la-carte · the corpus"] == (
        f"{start} --vectors.fill a-la-carte --vectors.corpus.files a/,b/ "
        "--vectors.corpus.dataset tickets.json"
    )
    assert found["fill by rotation · own"] == f"{start} --vectors.fill own.vec"
    assert found["concatenate with a gate · own"].endswith("+own.vec --training.vector-gate 300")
    assert "--start main.txt --corpus.files a/,b/ --corpus" in found["Mittens · the corpus"]
