"""The flow `advise-embeddings`: its numbers, its advice, and what the command prints."""

import json
import shlex
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
from tests.factories.prefect_artifacts import artifacts


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
    (artifact,) = artifacts("embeddings-advice")
    rows = json.loads(artifact["data"])
    assert [row["verdict"] for row in rows] == [entry["verdict"] for entry in advice["advice"]]
    assert any(f"--vectors.fill {tmp_path / 'domain'}" in row["command"] for row in rows)
    announce(advice)
    printed = capsys.readouterr().out
    for part in ("Missing    ", "terms placed", "keep the set as it is", "Next       bidaflow"):
        assert part in printed, printed
    turned: dict[str, Any] = result_of(
        advise_embeddings(dataset=str(data), vectors=sets[::-1], return_state=True)
    )
    assert turned["coverage"]["domain"]["missing"] == 0, "now, this is the main set"


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
    assert found["concatenate · the corpus"] == (
        f"{start}+skipgram --vectors.corpus.files a/,b/ --vectors.corpus.dataset tickets.json"
    )
    assert "--start main.txt --corpus.files a/,b/ --corpus" in found["Mittens · the corpus"]


def test_commands_can_be_pasted_into_a_shell() -> None:
    """Paths are quoted, and the settings of the corpus are part of the commands."""
    found = commands(
        "my tickets.json",
        ["glove-6b-50d", "own set.vec"],
        ["glove-6b-50d", "own"],
        CorpusParameters(files=["my texts/"], lower_case=False, split_joined=True),
        50,
    )
    flags = ["--corpus.files", "my texts/", "--corpus.no-lower-case", "--corpus.split-joined"]
    mittens = shlex.split(found["Mittens · the corpus"])
    assert mittens[-6:] == [*flags, "--name", "mittens"]
    assert shlex.split(found["Mittens · own texts"])[-1] == "mittens-own"
    own = shlex.split(found["fill a-la-carte · own texts"])
    retrain = ["bidaflow", "retrain", "--data.dataset", "my tickets.json"]
    assert own == [
        *(*retrain, "--vectors.fill", "a-la-carte", "--vectors.corpus.dataset", "my tickets.json"),
        *("--vectors.corpus.no-lower-case", "--vectors.corpus.split-joined"),
        "--vocabulary.no-lower-case",
    ]
    assert shlex.split(found["concatenate · own"])[4:] == [
        *("--vectors.source", "glove-6b-50d+own set.vec", "--vocabulary.no-lower-case"),
    ]
