"""Results for word vectors, collected from flow outputs for small parts of real data."""

import json
import lzma
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks import medical
from flows.common.parameters import CorpusParameters
from flows.train_embeddings import train_embeddings
from infra.artifacts.stage import result_of
from tasks.data.ingest import ingest_file
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.reports.comparison import Cell, CellTrainings
from tasks.stages import comparing
from tests.factories.stages import in_flow

pytestmark = [pytest.mark.heavy, pytest.mark.full, pytest.mark.timeout(1500)]

LINES = 400
F1 = {"glove-6b-50d": [0.0, 1.0, 0.5, 0.5], "medquad-fasttext": [1.0, 1.0, 0.5, 0.0]}
IDS = ["262", "276", "56be4db0acb8001400a502ec", "56be4db0acb8001400a502ed"]  # two of covid_qa


def train_small_set(source: Path, folder: Path, name: str) -> str:
    """Path of a small set of vectors, trained on the first `LINES` lines of a corpus.

    The shortened corpus keeps its file name.
    """
    part = folder / source.name
    with lzma.open(source) as text, lzma.open(part, "wb") as out:
        out.writelines(islice(text, LINES))
    state = train_embeddings(
        CorpusParameters(files=[str(part)]),
        EmbeddingParameters(method="fasttext", dimension=8, buckets=1000, epochs=1, workers=1),
        name=name,
        return_state=True,
    )
    return str(result_of(state)["files"][0])


def ingest_four(folder: Path, shared_data: Path) -> None:
    """Ingest the questions of `IDS` as a split."""
    files = ("qa/covid_qa.json", "squad/dev-v1.1.json")
    datasets = [json.loads((shared_data / file).read_text(encoding="utf-8")) for file in files]
    articles = [article for data in datasets for article in data["data"]]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    for paragraph in paragraphs:
        paragraph["qas"] = [qa for qa in paragraph["qas"] if str(qa["id"]) in IDS]
    kept = [paragraph for paragraph in paragraphs if paragraph["qas"]]
    folder.mkdir(parents=True)
    file = folder / "four.json"
    file.write_text(json.dumps({"data": [{"paragraphs": kept}]}), encoding="utf-8")
    ingest_file(folder, file)


def write_training_stage(folder: Path, f1: list[float]) -> Path:
    """The folder that a stage leaves for a training scored on those questions."""
    folder.mkdir(parents=True)
    names = ("em", "f1", "nll", "avna")
    scores = {f"dev/{name}": 1.0 for name in names} | {"examples_per_second": 1.0, "seconds": 60.0}
    manifest = {
        "digest": folder.name,
        "facts": {"scores": scores, "questions": len(IDS)},
        "made_from": [{"input": "data", "stage": "split", "key": "dev"}],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    config = {"model": {"unknown_words": "zero"}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    columns = {
        "id": IDS,
        "context_id": range(len(IDS)),
        "em": [float(value == 1) for value in f1],
        "f1": f1,
    }
    pq.write_table(pa.table(columns), folder / "predictions.parquet")
    return folder


@pytest.fixture
def vector_sets(
    root: Path,
    prefect_server: None,
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[list[str]]:
    """Vectors trained on both corpora, and a comparison of GloVe with one of them over two seeds.

    There is also an earlier comparison, which the results must ignore.
    """
    monkeypatch.setenv("BIDAFLOW_MIRROR", str(shared_data))
    corpora = shared_data / "corpora"
    sets = [
        train_small_set(corpora / medical.WIKIPEDIA, tmp_path, "wiki-fasttext"),
        train_small_set(corpora / "medquad.txt.xz", tmp_path, "medquad-fasttext"),
    ]
    cells = [Cell("medical", name, "char") for name in F1]
    stages = root.resolve() / "stages"
    ingest_four(stages / "split" / "dev", shared_data)
    folders = [
        [write_training_stage(stages / stage / f"{name}-{seed}", f1) for seed in (0, 1)]
        for stage in ("train", "error-report")
        for name, f1 in F1.items()
    ]
    trial = Cell("medical", "trial", "char")
    only = CellTrainings(trial, folders[0], folders[2])
    first = in_flow(lambda: comparing([only], [0, 1], {}), "trial")
    manifest = json.loads((first.folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["finished"] = "2020-01-01T00:00:00+00:00"
    (first.folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    trainings = [CellTrainings(*cell) for cell in zip(cells, folders[:2], folders[2:], strict=True)]
    in_flow(lambda: comparing(trainings, [0, 1], {}), "compare")
    yield sets


def test_collects_results_from_flow_outputs(
    vector_sets: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "medical.json"
    monkeypatch.setattr(sys, "argv", ["medical", *vector_sets, "--out", str(out)])
    medical.main()
    results = json.loads(out.read_text(encoding="utf-8"))
    glove, domain = results["answers"]
    assert (glove["vectors"], domain["vectors"]) == tuple(F1)
    assert (glove["covid_qa: F1"], domain["covid_qa: F1"]) == ("50.00 ± 0.00", "100.00 ± 0.00")
    assert (glove["SQuAD dev: F1"], domain["SQuAD dev: F1"]) == ("50.00 ± 0.00", "25.00 ± 0.00")
    assert domain["SQuAD dev: F1 by seed"] == "25.00, 25.00"
    assert domain["SQuAD dev: EM"] == "0.00 ± 0.00"
    assert glove["covid_qa: F1 gain, 95 %"] == "reference"
    assert domain["covid_qa: F1 gain, 95 %"].startswith("+50.00")
    # "DC-SIGNR" is outside GloVe; only the second question asks for it.
    assert glove["outside GloVe: F1"] == domain["outside GloVe: F1"] == "100.00 ± 0.00"
    (gain,) = results["gains"]
    assert (gain["from"], gain["to"]) == tuple(f"{name}, char, zero" for name in F1)
    assert gain["SQuAD dev"].startswith("-25.00") and gain["outside GloVe"].startswith("+0.00")
    covered = {name: row["covered"] for name, row in results["coverage"].items()}
    assert 0 < covered["medquad-fasttext"] < covered["glove-6b-50d"] < 1
    assert results["coverage"]["glove-6b-50d"]["terms"] > 20
    neighbours = [word for word, _ in results["neighbours"]["glove-6b-50d"]["insulin"]]
    assert len(neighbours) == 10 and "hormone" in neighbours
    text = out.with_suffix(".md").read_text(encoding="utf-8")
    assert text.count("\n| ---") == 4 and "coronavirus" in text
    assert out.with_suffix(".png").stat().st_size > 10_000
