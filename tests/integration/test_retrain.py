"""The whole road, run as its users run it: dataset to report, cache, MLflow, refusals."""

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

import mlflow
import pyarrow.parquet as pq
import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from flows.differences import differences
from models.presets import PRESETS
from tasks.embeddings.wordset import Subwords
from tasks.encoding import load_word_vectors
from tasks.errors import UserError
from tasks.tiny import generate
from tasks.vectors import read_vectors
from tests.integration.running import ONE_WORKER, QUICK, SMALL, retrain
from tests.tasks.embeddings.made import worlds

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3600)]


@dataclass(frozen=True)
class Retrained:
    """A finished run: where its state is, what it printed, and how long it took."""

    root: Path
    output: str
    seconds: float

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(f"sqlite:///{self.root}/mlflow.db")

    def runs(self, role: str) -> list[Run]:
        """The MLflow runs of a role, in the only experiment."""
        experiment = self.client.get_experiment_by_name("bidaflow/tiny")
        assert experiment is not None
        return list(
            self.client.search_runs([experiment.experiment_id], f"tags.`bidaflow.role` = '{role}'")
        )


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Retrained:
    """Both variants on the default dataset, small and for one epoch."""
    root = tmp_path_factory.mktemp("retrained")
    began = time.monotonic()
    done = retrain(root, *QUICK)
    assert done.returncode == 0, done.stdout + done.stderr
    return Retrained(root, done.stdout, time.monotonic() - began)


def test_the_run_ends_with_a_table_the_report_and_the_next_lines(first: Retrained) -> None:
    for text in ("baseline", "char", "EM", "F1", "NLL", "examples/s", "make up", "DATASET="):
        assert text in first.output
    report = first.root / "reports" / "tiny.html"
    assert str(report) in first.output
    assert "baseline" in report.read_text(encoding="utf-8")


def test_every_dev_question_was_scored(first: Retrained) -> None:
    asked = sum(
        len(paragraph["qas"])
        for article in generate(7)[1]["data"]
        for paragraph in article["paragraphs"]
    )
    assert f"tiny: {asked} dev questions" in first.output


def test_mlflow_has_a_run_per_variant_below_one_parent(first: Retrained) -> None:
    (parent,) = first.runs("parent")
    variants = first.runs("variant")
    assert {run.data.tags["variant"] for run in variants} == {"baseline", "char"}
    assert {run.data.tags["mlflow.parentRunId"] for run in variants} == {parent.info.run_id}
    assert {run.info.status for run in (parent, *variants)} == {"FINISHED"}
    for run in variants:
        assert {"dev/em", "dev/f1", "dev/nll", "dev/avna", "train/nll"} <= set(run.data.metrics)
        assert run.data.params["hidden_size"] == "8"
        artifacts = {file.path for file in first.client.list_artifacts(run.info.run_id)}
        assert {"config.json", "history.json", "predictions.parquet"} <= artifacts


def test_each_variant_has_an_error_report_that_the_report_links_to(first: Retrained) -> None:
    report = first.root / "reports" / "tiny.html"
    links = re.findall(r'href="(tiny/[^"]*)"', report.read_text(encoding="utf-8"))
    assert links == ["tiny/baseline.html", "tiny/char.html"]
    for run in first.runs("variant"):
        page = report.parent / "tiny" / f"{run.data.tags['variant']}.html"
        kept = first.client.download_artifacts(run.info.run_id, "errors.html")
        assert Path(kept).read_bytes() == page.read_bytes()


def test_two_runs_are_compared_answer_by_answer(
    first: Retrained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIDAFLOW_ROOT", str(first.root))
    comparison, page = differences("bidaf-tiny/1, bidaf-tiny/2")
    scores = [run.data.metrics["dev/f1"] for run in first.runs("variant")]
    questions = sum(outcome.questions for outcome in comparison.outcomes)
    assert f"{questions} dev questions" in first.output
    assert abs(comparison.gain.mean) == pytest.approx(abs(scores[0] - scores[1]), abs=1e-3)
    assert page.parent == first.root / "reports" and "Who is right" in page.read_text("utf-8")
    with pytest.raises(UserError, match="names 1 of the two runs"):
        differences("champion")


def test_the_best_variant_is_the_champion_and_why_is_told(first: Retrained) -> None:
    runs = {run.info.run_id: run for run in first.runs("variant")}
    champion = first.client.get_model_version_by_alias("bidaf-tiny", "champion")
    best = runs[champion.run_id]
    assert best.data.metrics["dev/f1"] == max(run.data.metrics["dev/f1"] for run in runs.values())
    assert "no champion before" in best.data.tags["promotion"]
    (parent,) = first.runs("parent")
    for run in (parent, best):
        artifacts = {file.path for file in first.client.list_artifacts(run.info.run_id)}
        assert {"decision.json", "decision.md"} <= artifacts


def test_the_logged_model_answers_raw_text(first: Retrained) -> None:
    mlflow.set_tracking_uri(f"sqlite:///{first.root}/mlflow.db")
    model = mlflow.pyfunc.load_model("models:/bidaf-tiny/2")
    context = "Druwekos came into the world in Corgubost."
    (row,) = model.predict([{"question": "Where was Druwekos born?", "context": context}])
    assert row["answer"] == (context[row["start"] : row["end"]] if row["start"] >= 0 else "")
    assert 0 <= row["no_answer_probability"] <= 1


def test_nothing_is_left_of_the_checkpoints_and_nothing_is_pickled(first: Retrained) -> None:
    assert list((first.root / "ray").iterdir()) == []
    stages = first.root / "stages"
    assert not list(stages.rglob(".building-*"))
    suffixes = {file.suffix for file in stages.rglob("*") if file.is_file()}
    assert suffixes <= {".json", ".parquet", ".arrow", ".safetensors", ".html"}


def test_unchanged_it_trains_nothing_says_so_and_is_quick(first: Retrained) -> None:
    began = time.monotonic()
    again = retrain(first.root, *QUICK)
    assert again.returncode == 0, again.stderr
    assert "Nothing to do" in again.stdout
    assert "Finished in state Nothing to do" in again.stdout + again.stderr
    # On a machine at rest ten seconds; the first run, which trains, tells how slow this one is.
    assert time.monotonic() - began < max(30, first.seconds / 2)
    assert len(first.runs("variant")) == 2


def test_overheads_are_measured_apart(first: Retrained) -> None:
    manifests = [
        json.loads(f.read_text()) for f in (first.root / "stages/train").glob("*/manifest.json")
    ]
    for manifest in manifests:
        seconds = manifest["facts"]["seconds"]
        assert 0 < seconds["ray_start"] < 600
        assert 0 < seconds["fit_overhead"] < seconds["fit"]


@pytest.fixture
def own_data(tmp_path: Path) -> Path:
    """A folder of one's own: a few articles, told apart by file names."""
    train, dev = generate(3)
    folder = tmp_path / "own"
    folder.mkdir()
    for name, data in (("train-mine.json", train), ("dev-mine.json", dev)):
        few = {**data, "data": data["data"][:4]}
        (folder / name).write_text(json.dumps(few), encoding="utf-8")
    return folder


def test_own_folder_then_a_changed_file(own_data: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    flags = (*QUICK, "--data.dataset", str(own_data), "--variants", "char")
    done = retrain(root, *flags)
    assert done.returncode == 0, done.stderr
    assert "own: " in done.stdout and "now" in done.stdout

    file = own_data / "train-mine.json"
    data = json.loads(file.read_text(encoding="utf-8"))
    data["data"].pop()
    file.write_text(json.dumps(data), encoding="utf-8")
    changed = retrain(root, *flags)
    assert "Nothing to do" not in changed.stdout and "now" in changed.stdout
    # The dev file is as it was: it alone is taken from the cache.
    assert len(re.findall(r"'ingest-\w+' - Finished in state Cached", changed.stderr)) == 1
    assert len(re.findall(r"'ingest-\w+' - Finished in state Completed", changed.stderr)) == 1


def test_two_workers_train_what_one_trains(own_data: Path, tmp_path: Path) -> None:
    losses = []
    for workers in ("1", "2"):
        root = tmp_path / workers
        flags = ("--data.dataset", str(own_data), "--variants", "char", "--training.dropout", "0")
        done = retrain(root, *SMALL, *flags, "--resources.workers", workers)
        assert done.returncode == 0, done.stderr
        (history,) = (root / "stages" / "train").glob("*/history.json")
        losses.append(json.loads(history.read_text(encoding="utf-8"))[-1]["dev/nll"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--data.dataset", "no/such/place"), "no/such/place is neither a known dataset"),
        (
            ("--resources.workers", "64", "--resources.cpus-per-worker", "1"),
            "64 worker(s) with 1 CPU",
        ),
        (("--resources.gpu", "true"), "0 GPU(s)"),
        (("--vectors.source", "gone.txt"), "gone.txt"),
        ((*ONE_WORKER, "--training.max-context-tokens", "3"), "max_context_tokens"),
    ],
)
def test_a_users_mistake_ends_in_a_sentence(
    flags: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    done = retrain(tmp_path / "root", *SMALL, *flags)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-2:]  # Prefect says after it that its server stops
    assert any(sentence in line and "|" not in line for line in last), done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_every_preset_is_trained_by_its_name(own_data: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    flags = ("--data.dataset", str(own_data), "--training.characters.max-characters", "12")
    readers = [name for name, variant in PRESETS.items() if variant.model.characters]
    done = retrain(root, *QUICK, *flags, "--variants", ",".join(readers))
    assert done.returncode == 0, done.stderr
    configs = [
        json.loads(file.read_text(encoding="utf-8"))
        for file in (root / "stages" / "train").glob("*/config.json")
    ]
    assert {config["name"] for config in configs} == set(PRESETS) - {"baseline"}
    assert {config["model"]["characters"]["max_characters"] for config in configs} == {12}


def test_words_without_a_vector_are_spelt_in_training_and_in_serving(
    own_data: Path, tmp_path: Path
) -> None:
    """The set is trained first, on a corpus that holds next to none of the dataset's words."""
    root, corpus = tmp_path / "root", tmp_path / "corpus.txt"
    corpus.write_text("\n".join(" ".join(line) for line in worlds(60)), encoding="utf-8")
    vectors = ("--vectors.source", "fasttext", "--vectors.corpus.files", str(corpus))
    small = ("--vectors.training.dimension", "8", "--vectors.training.buckets", "1000")
    spelling = ("--variants", "baseline", "--training.unknown-words", "subword")
    data = ("--data.dataset", str(own_data))
    done = retrain(root, *QUICK, *data, *vectors, *small, *spelling)
    assert done.returncode == 0, done.stderr

    (picked,) = (file.parent for file in root.glob("stages/select-vectors/*/vectors.parquet"))
    (vocabulary,) = (file.parent for file in root.glob("stages/build-vocabulary/*/words.parquet"))
    words = pq.read_table(vocabulary / "words.parquet")["word"].to_pylist()
    assert "where" in words and "where" not in read_vectors(picked, spelt=False)[0].to_pylist()
    matrix, subwords = load_word_vectors(vocabulary, picked, "subword"), Subwords.load(picked)
    assert subwords is not None
    spelt = subwords.vector("where")
    assert spelt.any() and (matrix[words.index("where")] == spelt).all()

    mlflow.set_tracking_uri(f"sqlite:///{root}/mlflow.db")
    model = mlflow.pyfunc.load_model("models:/bidaf-own/1")
    asked = [
        {"question": "Where was it?", "context": f"It was seen in {name}."}
        for name in ("Xyzzyvale", "Quuxborough", "Xyzzyvale")
    ]
    scores = [row["score"] for row in model.predict(asked)]
    assert not {"xyzzyvale", "quuxborough"} & set(words)
    assert scores[0] == pytest.approx(scores[2]) and scores[0] != pytest.approx(scores[1])


def test_characters_alone_need_no_vectors(own_data: Path, tmp_path: Path) -> None:
    """The file that is named is not even looked for."""
    flags = ("--data.dataset", str(own_data), "--vectors.source", "gone.txt")
    done = retrain(tmp_path / "root", *QUICK, *flags, "--variants", "char-only")
    assert done.returncode == 0, done.stderr
