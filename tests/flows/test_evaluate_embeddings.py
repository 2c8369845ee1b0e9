"""The flow that evaluates sets of word vectors."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from flows import evaluate_embeddings as flow_file
from flows.common.data import ingest_dataset
from flows.common.parameters import DataParameters
from flows.evaluate_embeddings import evaluate_embeddings, metric_title, page_name
from infra.artifacts.manifest import content_digest
from infra.artifacts.stage import result_of
from tasks.datasets.tiny import generate
from tasks.embeddings.evaluation.coverage import coverage_by_band
from tasks.embeddings.evaluation.evaluate import EVALUATION, Queries, metrics
from tasks.embeddings.evaluation.homonyms import MEAN_OF_CONTEXT
from tasks.embeddings.evaluation.nearest_neighbors import Neighbours
from tasks.embeddings.evaluation.published_tests import SIMILARITY_TESTS
from tasks.embeddings.evaluation.weat import TESTS
from tasks.embeddings.formats.store import write_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.text.split_texts import form_counts
from tests.factories.cli import bidaflow
from tests.factories.file_server import Served, serving
from tests.factories.tracking_store import refusing_metrics
from tests.factories.vectors import write_lines


def test_evaluates_logs_and_reports_two_sets(
    root: Path, prefect_server: None, tmp_path: Path
) -> None:
    from mlflow.tracking import MlflowClient

    one = write_lines(tmp_path / "one.txt", "the 1 0", "is 0 1", "in 1 1", "of 2 1")
    two = write_lines(tmp_path / "two.txt", "the 1 0", "of 0 1")
    data = str(tmp_path / "tickets.json")
    tiny = generate(3)[0]
    write_lines(Path(data), json.dumps({**tiny, "data": tiny["data"][:30]}))
    result = result_of(
        evaluate_embeddings([one, two], data, Queries(words=["the"]), return_state=True)
    )
    report = Path(result["report"])
    assert report == root / "reports" / "vectors-one.txt-two.txt-on-tickets.html"
    assert report.exists()
    covered = [result["metrics"][name]["coverage/all.tokens"] for name in ("one.txt", "two.txt")]
    assert 0 < covered[1] < covered[0] < 1
    splits = ingest_dataset(DataParameters(dataset=data))
    assert splits.validation is not None
    parts = [splits.train.folder, splits.validation.folder, splits.dev.folder]
    files = list(root.glob("stages/evaluate-embeddings/*/evaluation.json"))
    assert len(files) == 2
    for file in files:
        evaluation = json.loads(file.read_text(encoding="utf-8"))
        assert evaluation["coverage"]["all"]["tokens"] == sum(form_counts(parts).values())
    client = MlflowClient(f"sqlite:///{root}/mlflow.db")
    experiment = client.get_experiment_by_name("bidaflow/embeddings")
    runs = client.search_runs([experiment.experiment_id])
    logged = {run.info.run_name: run for run in runs}
    assert logged["one.txt"].data.metrics == pytest.approx(result["metrics"]["one.txt"])
    assert {run.info.status for run in runs} == {"FINISHED"} and len(runs) == 3
    folders = dict(zip(("train", "validation", "dev"), parts, strict=True))
    for name, file in (("one.txt", one), ("two.txt", two)):
        data_of_run = logged[name].data
        params = {"dataset": "tickets", "lower_case": "True", "vectors.source": name}
        params |= {"vectors.dimension": "2", "vectors.method": "pre-trained"}
        assert {key: data_of_run.params.get(key) for key in params} == params
        digests = {f"{part}.digest": content_digest(folders[part]) for part in folders}
        digests["vectors.digest"] = content_digest(Path(file))
        assert {key: data_of_run.tags.get(key) for key in digests} == digests
        inputs = logged[name].inputs.dataset_inputs
        assert {i.tags[0].value: i.dataset.digest for i in inputs} == {
            part: content_digest(folder)[:36] for part, folder in folders.items()
        }
        artifact = client.download_artifacts(logged[name].info.run_id, EVALUATION, str(tmp_path))
        assert artifact and json.loads(Path(artifact).read_text(encoding="utf-8"))["dimension"] == 2


def test_run_records_how_the_set_was_trained(
    root: Path, prefect_server: None, tmp_path: Path
) -> None:
    from mlflow.tracking import MlflowClient

    metadata = {"method": "skipgram", "corpus": "c0" * 32, "lower_case": False}
    metadata |= {"parameters": {"dimension": 2, "window": 3}}
    (tmp_path / "own").mkdir()
    write_vectors(tmp_path / "own", WordSet(["the", "is"], np.eye(2, dtype=np.float32)), metadata)
    spec = str(tmp_path / "own" / "vectors.parquet")
    result_of(evaluate_embeddings([spec], lower_case=False, return_state=True))
    client = MlflowClient(f"sqlite:///{root}/mlflow.db")
    experiment = client.get_experiment_by_name("bidaflow/embeddings")
    runs = client.search_runs([experiment.experiment_id], "tags.`bidaflow.role` = 'variant'")
    params = runs[0].data.params
    expected = {
        "dataset": "None",
        "lower_case": "False",
        "vectors.source": "own/vectors.parquet",
        "vectors.method": "skipgram",
        "vectors.dimension": "2",
        "vectors.corpus_digest": ("c0" * 32)[:12],
        "vectors.lower_case": "False",
        "vectors.training.window": "3",
    }
    assert {name: params.get(name) for name in expected} == expected
    assert runs[0].inputs.dataset_inputs == []


@pytest.mark.heavy
def test_failed_logging_ends_the_runs(root: Path, prefect_server: None, tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    source = write_lines(tmp_path / "v.txt", "the 1 0", "is 0 1")
    client = MlflowClient(f"sqlite:///{root}/mlflow.db")
    client.search_experiments()  # creates the database

    def statuses() -> list[str]:
        experiment = client.get_experiment_by_name("bidaflow/embeddings")
        return [run.info.status for run in client.search_runs([experiment.experiment_id])]

    with refusing_metrics(root / "mlflow.db"):
        assert evaluate_embeddings([source], return_state=True).is_failed()
    assert statuses() == ["FAILED", "FAILED"]
    result_of(evaluate_embeddings([source], return_state=True))
    assert sorted(statuses()) == ["FAILED", "FINISHED", "FINISHED"]


@pytest.mark.heavy
def test_benchmarks_are_downloaded_only_on_request(
    root: Path,
    prefect_server: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("BIDAFLOW_MIRROR", raising=False)
    source = write_lines(tmp_path / "v.txt", "king 3 1", "man 1 1", "owl -1 0.1")
    content = b"king man 9\nking owl 1\n"
    served = Served(content)
    with serving(served):
        known = {"url": served.url, "bytes": len(content)}
        known["sha256"] = hashlib.sha256(content).hexdigest()
        test = SIMILARITY_TESTS["MEN"].model_copy(update=known)
        monkeypatch.setattr(flow_file, "PUBLISHED", {"MEN": test})
        results, request_counts = [], []
        for fetch in (False, True, False):
            results.append(result_of(evaluate_embeddings([source], fetch=fetch, return_state=True)))
            request_counts.append(len(served.requests))
    assert request_counts == [0, 1, 1]
    assert [result["left_out"] for result in results] == [["MEN"], [], []]
    assert "similarity/MEN" not in results[0]["metrics"]["v.txt"]
    assert results[2]["metrics"]["v.txt"]["similarity/MEN"] == pytest.approx(1.0)
    flow_file.announce(results[0])
    assert "missing: MEN. Use --fetch to download them." in capsys.readouterr().out


def test_pages_of_many_sets_have_short_distinct_names() -> None:
    assert page_name(["glove", "own/set"], []) == "vectors-glove-own_set.html"
    names = {page_name(["é" * 50, "b" * 100, "c" * 100, last], []) for last in "xy"}
    assert len(names) == 2 and max(len(name.encode()) for name in names) < 200


def test_every_metric_has_a_title_in_words() -> None:
    space = Neighbours(WordSet(["a"], np.ones((1, 2), np.float32)))
    evaluation = {
        "similarity": {name: {"spearman": 0.5, "covered": 1.0} for name in SIMILARITY_TESTS},
        "analogies": {name: {"accuracy": 0.5} for name in ("all", "gram3-comparative")},
        "homonyms": {"layer 1": {"accuracy": 0.5}, MEAN_OF_CONTEXT: {"accuracy": 0.5}},
        "coverage": coverage_by_band(space.rows, {"a": 1}, lower_case=True),
        "bias": {name: {"effect": 0.1, "p": 0.5} for name in TESTS},
    }
    titles = [metric_title(name) for name in metrics(evaluation)]
    assert len(set(titles)) == len(titles)
    assert not any("/" in title or "." in title for title in titles)
    for title in (
        "MEN: share of pairs covered",
        "Analogies, gram3 comparative: share correct",
        "Coverage of all words: tokens",
        "Coverage of words that occur once: distinct words",
        "Coverage of words that occur 2 to 4 times: tokens",
        "Coverage of words that occur 100 and more times: tokens",
        "Homonyms, layer 1: share of senses right",
        "Bias, flowers insects - pleasant unpleasant: p-value",
    ):
        assert title in titles


@pytest.mark.full
def test_command_shows_metrics_by_their_titles(root: Path, shared_data: Path) -> None:
    done = bidaflow(
        root, "embeddings", "evaluate", COLUMNS="80", BIDAFLOW_MIRROR=str(shared_data / "wordsim")
    )
    assert done.returncode == 0, done.stderr
    assert "Evaluating glove-6b-50d" in done.stderr
    lines = done.stdout.splitlines()
    assert max(map(cell_len, lines[:-1])) <= 80  # the last one is the report's path
    assert any("MEN: rank correlation with people" in line for line in lines)
    assert not re.search("similarity/|analogies/|bias/", done.stdout)
