"""Language models on real Ray Train workers: their number, and a worker that is killed."""

import json
import os
import shutil
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray.train
import torch
from mlflow.tracking import MlflowClient

from infra.cluster.allotment import Allotment
from infra.storage.store import local_store
from models.language_model.config import LMTraining
from models.language_model.trainer import LMTrainer
from tasks.embeddings.training.encode_corpus import (
    TRAIN,
    EncodedCorpus,
    encode_corpus,
    read_words,
)
from tasks.training import language_model_worker as module
from tasks.training.language_model_worker import (
    History,
    LanguageModelJob,
    _Loop,
    load_result,
    new_language_model,
    train_language_model_worker,
)
from tasks.training.ray_workers import resumable, run_workers
from tests.factories.corpus import corpus_of, shuffled_topics
from tests.factories.language_models import CONFIG
from tests.factories.ray_processes import processes_of_ray

TRAINING = LMTraining(epochs=3, tracks=6, steps=8, learning_rate=0.01, dropout=0.2)


@pytest.fixture(scope="module")
def corpus(ray_cluster: None, tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    """An encoded corpus, with a running Ray cluster."""
    return encoded_corpus(tmp_path_factory.mktemp("corpus"), 1000)


def encoded_corpus(folder: Path, paragraphs: int) -> EncodedCorpus:
    """An encoded corpus of so many paragraphs of 20 words."""
    lines = shuffled_topics(paragraphs)
    folder.mkdir(exist_ok=True)
    facts = {"words": 20 * paragraphs, "paragraphs": paragraphs}
    (folder / "manifest.json").write_text(json.dumps({"facts": facts}), encoding="utf-8")
    corpus_of(folder, lines)
    (folder / "encoded").mkdir()
    encode_corpus(folder / "encoded", folder)
    return EncodedCorpus(folder, folder / "encoded")


def train(
    folder: Path, corpus: EncodedCorpus, workers: int = 1, function: Any = None
) -> tuple[dict[str, torch.Tensor], History]:
    """Train to the end. Returns weights and history."""
    folder.mkdir(exist_ok=True)
    uri = f"sqlite:///{folder}/mlflow.db"
    run_id = MlflowClient(uri).create_run("0").info.run_id
    words = read_words(corpus.prepared)
    job = LanguageModelJob(CONFIG, TRAINING, corpus, words, None, uri, run_id)
    result = run_workers(
        "elmo",
        function or train_language_model_worker,
        job,
        Allotment(workers=workers, cpus_per_worker=1, gpus_per_worker=0),
        resumable("trained", local_store(folder)),
    )
    logged = MlflowClient(uri).get_metric_history(run_id, "held_out/perplexity_mean")
    weights, record = load_result(Path(result.checkpoint.path))
    assert [point.value for point in logged] == [
        entry["held_out/perplexity_mean"] for entry in record.history
    ]
    return weights, record.history


@pytest.fixture(scope="module")
def whole(
    corpus: EncodedCorpus, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, torch.Tensor], History]:
    """A training that nothing interrupts."""
    return train(tmp_path_factory.mktemp("whole"), corpus)


def train_until_killed(config: dict[str, Any]) -> str | None:
    """`train_language_model_worker`, which waits to be killed after its second checkpoint."""
    if ray.train.get_checkpoint() is None:
        save = _Loop._save

        def save_and_wait(loop: _Loop) -> None:
            save(loop)
            if len(loop.record.history) == 2:
                time.sleep(1000)

        module._Loop._save = save_and_wait  # type: ignore[method-assign]
    return train_language_model_worker(config)


def kill_after_two_checkpoints(folder: Path) -> None:
    snapshot = folder / "trained" / "checkpoint_manager_snapshot.json"
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline:
        try:
            latest = json.loads(snapshot.read_text())["latest_checkpoint_result"]
            state = folder / "trained" / latest["checkpoint_dir_name"] / "state.json"
            record = json.loads(state.read_text())["record"]
        except (FileNotFoundError, TypeError, ValueError):
            record = {"history": []}
        if len(record["history"]) == 2 and (workers := processes_of_ray("RayTrainWorker")):
            os.kill(workers[-1].pid, signal.SIGKILL)
            return
        time.sleep(0.05)


@pytest.mark.heavy
@pytest.mark.full
@pytest.mark.timeout(1500)
def test_killed_worker_resumes_to_the_bit(
    tmp_path: Path, corpus: EncodedCorpus, whole: tuple[dict[str, torch.Tensor], History]
) -> None:
    killer = threading.Thread(target=kill_after_two_checkpoints, args=[tmp_path], daemon=True)
    killer.start()
    weights, history = train(tmp_path, corpus, function=train_until_killed)
    killer.join(1)
    assert not killer.is_alive(), "a worker was killed"
    expected, expected_history = whole
    assert all(torch.equal(weights[name], tensor) for name, tensor in expected.items())
    measured = {"seconds", "words_per_second"}
    for entry, other in zip(history, expected_history, strict=True):
        assert {k: v for k, v in entry.items() if k not in measured} == {
            k: v for k, v in other.items() if k not in measured
        }


@pytest.mark.heavy
@pytest.mark.full
@pytest.mark.timeout(1500)
def test_two_workers_learn_as_much_as_one(
    tmp_path: Path, corpus: EncodedCorpus, whole: tuple[dict[str, torch.Tensor], History]
) -> None:
    _, history = train(tmp_path, corpus, workers=2)
    _, alone = whole
    assert [entry["step"] for entry in history] == [entry["step"] for entry in alone]
    mean = "held_out/perplexity_mean"
    assert history[-1][mean] == pytest.approx(alone[-1][mean], rel=0.05)
    assert history[-1][mean] < 0.8 * history[0][mean]


class Stopped(Exception):
    """The end of an interrupted training."""


def test_timed_checkpoint_resumes_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = replace(TRAINING, epochs=50)
    corpus = encoded_corpus(tmp_path / "corpus", 100)
    words = read_words(corpus.prepared)
    job = LanguageModelJob(CONFIG, training, corpus, words, None, "", "")

    def train_until(last: int, folder: Path, resumed: Path | None = None) -> Path:
        def keep(metrics: dict[str, Any], checkpoint: ray.train.Checkpoint) -> None:
            shutil.copytree(checkpoint.path, folder / str(metrics["step"]))
            if metrics["step"] == last:
                raise Stopped

        start = resumed and ray.train.Checkpoint.from_directory(resumed)
        monkeypatch.setattr(ray.train, "report", keep)
        monkeypatch.setattr(ray.train, "get_checkpoint", lambda: start)
        trainer = LMTrainer(new_language_model(job), corpus.load(TRAIN, words), training)
        assert trainer.interval > last, "no evaluation before it"
        with pytest.raises(Stopped):
            _Loop(job, trainer, lambda report: None, checkpoint_minutes=1e-9).run()
        return folder / str(last)

    whole = train_until(6, tmp_path / "whole")
    assert {folder.name for folder in whole.parent.iterdir()} == {"2", "3", "4", "5", "6"}
    resumed = train_until(6, tmp_path / "resumed", whole.with_name("3"))
    for file in ("state.safetensors", "worker-0.safetensors"):
        assert (resumed / file).read_bytes() == (whole / file).read_bytes(), file
    counters = [json.loads((folder / "state.json").read_text()) for folder in (whole, resumed)]
    assert [numbers["counters"]["unread"] for numbers in counters] == [6, 6]
