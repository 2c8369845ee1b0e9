"""Training on real Ray Train workers: their number, killed processes, and early stopping."""

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray.train
import torch
from mlflow.tracking import MlflowClient
from ray.train import RunConfig, ScalingConfig, WorkerGroupError
from ray.train.torch import TorchConfig, TorchTrainer
from safetensors.torch import load_file

from infra import environment
from infra.cluster.allotment import Allotment
from infra.errors import UserError
from infra.reporting import progress_reporter
from infra.storage.store import local_store
from models.configs.variant import TrainingConfig, VariantConfig
from models.trainer import Reading, Trainer
from tasks.data.ingested import fingerprints
from tasks.inference.trained_contexts import trained_contexts
from tasks.text.encoded import load_encoded, load_types
from tasks.tracking.metric_logger import STEPS_PER_POINT
from tasks.training import ray_trainer, ray_workers, worker
from tasks.training.checkpoints import TENSORS, TrainingRecord, load_record
from tasks.training.initialization import new_model
from tasks.training.inputs import TrainingData
from tasks.training.outputs import write_outputs
from tasks.training.ray_trainer import FitResult, fit
from tasks.training.ray_workers import SLOW_PRECISION, is_slow
from tasks.training.worker import Job, _Loop, make_trainer, train_worker
from tests.factories.ray_processes import processes_of_ray
from tests.factories.training_data import make_job, prepare, small

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def data(ray_cluster: None, tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    """Training data, with a running Ray cluster."""
    return prepare(tmp_path_factory.mktemp("prepared"))


def run(folder: Path, data: TrainingData, variant: VariantConfig, workers: int = 1) -> FitResult:
    """Train a variant to its end."""
    job = make_job(folder, data, variant)
    allotment = Allotment(workers=workers, cpus_per_worker=1, gpus_per_worker=0)
    return fit(job, allotment, "trained", local_store(folder / "ray"))


# Workers


STEPS = 50


def first_losses(job: Job, trainer: Trainer) -> list[float]:
    """The losses of a trainer's first steps."""
    losses: list[float] = []

    def collect_losses(reading: Reading) -> bool:
        losses.extend(reading.nlls)
        return len(losses) < STEPS

    examples, types = load_encoded(job.data.train.encoded), load_types(job.data.vocabulary)
    while len(losses) < STEPS:
        trainer.train_epoch(examples, types, collect_losses)
    return losses


def write_losses(config: dict[str, Any]) -> None:
    """The training loop of each worker; the first worker writes the losses to a file."""
    trainer = make_trainer(config["job"], threads=1)
    losses = first_losses(config["job"], trainer)
    if trainer.rank == 0:
        config["out"].write_text(json.dumps(losses))
    ray.train.report({})


@pytest.mark.full
def test_two_workers_match_the_losses_of_one(data: TrainingData, tmp_path: Path) -> None:
    rows = len(load_encoded(data.train.encoded).trainable(TrainingConfig()))
    # The last batch has one row, so the second worker gets none of it.
    batch_size = next(n for n in range(11, rows) if rows % n == 1)
    # Sums in another order round differently; larger steps would amplify the differences.
    variant = small(dropout=0.0, batch_size=batch_size, learning_rate=2e-4)
    job, out = make_job(tmp_path, data, variant), tmp_path / "losses.json"
    alone = Trainer(new_model(variant, data)[0], variant.training)
    expected = first_losses(job, alone)
    TorchTrainer(
        write_losses,
        train_loop_config={"job": job, "out": out},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=str(tmp_path / "ray")),
    ).fit()
    losses = json.loads(out.read_text())
    assert len(losses) == STEPS
    assert losses == pytest.approx(expected, abs=1e-5)
    assert sum(losses[:10]) - sum(losses[-10:]) > 1, "it learns"


# Killed processes


def train_until_killed(config: dict[str, Any]) -> str | None:
    """`train_worker`, whose first worker waits to be killed after its first checkpoint.

    The checkpoint is from the middle of an epoch. The other workers start the next step.
    """
    if ray.train.get_checkpoint() is None:
        save = _Loop._save

        def save_and_wait(loop: _Loop, predictions: Any) -> None:
            save(loop, predictions)
            if loop.is_first:
                time.sleep(1000)

        worker._Loop._save = save_and_wait  # type: ignore[method-assign]
    return train_worker(config)


def kill_in_mid_epoch(folder: Path, name: str) -> None:
    """Kill a process with this name once Ray has a checkpoint from the middle of an epoch."""
    deadline = time.monotonic() + 900
    while time.monotonic() < deadline:
        if _position(folder / "ray" / "trained") and (found := processes_of_ray(name)):
            os.kill(found[-1].pid, signal.SIGKILL)
            return
        time.sleep(0.02)


def _position(trained: Path) -> int:
    """The number of steps into its epoch of the checkpoint to resume from; 0 without one."""
    try:
        kept = json.loads((trained / "checkpoint_manager_snapshot.json").read_text())
        latest = trained / kept["latest_checkpoint_result"]["checkpoint_dir_name"]
        position: int = json.loads((latest / "state.json").read_text())["counters"]["position"]
    except FileNotFoundError:
        return 0
    return position


def comparable_history(record: TrainingRecord) -> list[dict[str, Any]]:
    """The history without times, speeds and memory use."""
    measured = {"examples_per_second", "seconds", "elapsed_seconds", "peak_memory_bytes"}
    return [
        {name: value for name, value in entry.items() if name not in measured}
        for entry in record.history
    ]


def logged_nlls(folder: Path) -> set[tuple[int, float]]:
    """The (step, value) points of a training's per-batch loss in MLflow."""
    client = MlflowClient(f"sqlite:///{folder}/mlflow.db")
    (run,) = client.search_runs(["1"])
    points = client.get_metric_history(run.info.run_id, "train/batch_nll")
    return {(point.step, point.value) for point in points}


RESUMED = small(dropout=0.3, epochs=2, batch_size=6)


@pytest.fixture(scope="module")
def uninterrupted(data: TrainingData, tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    return run(tmp_path_factory.mktemp("uninterrupted"), data, RESUMED, workers=2)


@pytest.fixture
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every step."""
    monkeypatch.setenv("BIDAFLOW_CHECKPOINT_MINUTES", "1e-9")


@pytest.mark.full
@pytest.mark.usefixtures("frequent_checkpoints")
def test_another_checkpoint_interval_resumes(
    data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(progress_reporter, "logger", lambda: SimpleNamespace(info=lines.append))
    with monkeypatch.context() as patch:
        patch.setattr(ray_trainer, "train_worker", train_until_killed)
        patch.setattr(ray_workers, "MAX_RESTARTS", 0)
        killer = threading.Thread(target=kill_in_mid_epoch, args=(tmp_path, "RayTrainWorker"))
        killer.start()
        with pytest.raises(WorkerGroupError):
            run(tmp_path, data, RESUMED)
        killer.join()
    monkeypatch.setenv("BIDAFLOW_CHECKPOINT_MINUTES", "2")
    run(tmp_path, data, RESUMED)
    (line,) = [line for line in lines if "continuing from" in line]
    assert line.startswith("char: continuing from epoch 1, step 2")


@pytest.mark.full
@pytest.mark.usefixtures("frequent_checkpoints")
def test_killed_worker_does_not_change_the_result(
    data: TrainingData,
    uninterrupted: FitResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(progress_reporter, "logger", lambda: SimpleNamespace(info=lines.append))
    monkeypatch.setattr(ray_trainer, "train_worker", train_until_killed)
    killer = threading.Thread(target=kill_in_mid_epoch, args=(tmp_path, "RayTrainWorker"))
    killer.start()
    resumed = run(tmp_path, data, RESUMED, workers=2)
    killer.join()
    expected, found = (load_file(fitted.last / TENSORS) for fitted in (uninterrupted, resumed))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    record = load_record(resumed.last)
    assert comparable_history(record) == comparable_history(load_record(uninterrupted.last))
    logged = logged_nlls(tmp_path)
    assert logged == logged_nlls(uninterrupted.last.parents[2])
    assert len(logged) == record.history[-1]["step"] // STEPS_PER_POINT >= 3
    starts = [line for line in lines if "the workers have started" in line]
    assert len(starts) == 2, "before the kill and after it"
    (failure,) = [line for line in lines if "New workers continue" in line]
    assert failure.startswith(("char: a worker died", "char: a worker lost its connection"))
    assert len([line for line in lines if "continuing from epoch 1, step" in line]) == 1
    others = [line for line in lines if " step " not in line and line not in (*starts, failure)]
    reported = [line.split(":")[0] for line in others]
    assert reported == ["char", "char epoch 1", "char epoch 2", "char ended"], "once each"


def hang_once(config: dict[str, Any]) -> str | None:
    """`train_worker`, whose second worker never writes its first checkpoint."""
    mark = Path(config["job"].tracking_uri.removeprefix("sqlite:///")).with_name("hung")
    if not mark.exists():
        save = _Loop._save

        def save_or_hang(loop: _Loop, predictions: Any) -> None:
            if not loop.is_first:
                mark.touch()
                time.sleep(1000)
            save(loop, predictions)

        worker._Loop._save = save_or_hang  # type: ignore[method-assign]
    return train_worker(config)


@pytest.mark.full
def test_worker_that_hangs_is_replaced(
    data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert environment.variables()["RAY_TRAIN_COLLECTIVE_TIMEOUT_S"] == str(TorchConfig().timeout_s)
    monkeypatch.setenv("RAY_TRAIN_COLLECTIVE_TIMEOUT_S", "20")
    lines: list[str] = []
    monkeypatch.setattr(progress_reporter, "logger", lambda: SimpleNamespace(info=lines.append))
    monkeypatch.setattr(ray_trainer, "train_worker", hang_once)
    run(tmp_path, data, small(epochs=1), workers=2)
    (line,) = [line for line in lines if "New workers continue" in line]
    assert line.startswith("char: a worker hung.")


def refuse(config: dict[str, Any]) -> None:
    """The training loop of a worker that can't work."""
    raise UserError("The store refuses access. Check AWS_ACCESS_KEY_ID.")


@pytest.mark.full
def test_user_error_of_a_worker_is_raised(
    data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_trainer, "train_worker", refuse)
    monkeypatch.setattr(ray_workers, "MAX_RESTARTS", 0)
    with pytest.raises(UserError, match="The store refuses access"):
        run(tmp_path, data, small())


@pytest.mark.full
def test_only_needed_checkpoints_are_kept(uninterrupted: FitResult) -> None:
    kept = [path for path in uninterrupted.last.parent.glob("checkpoint_*") if path.is_dir()]
    assert len(kept) <= 3, "the latest, and the best two"
    assert {uninterrupted.last, uninterrupted.best} <= set(kept)
    record = load_record(uninterrupted.last)
    f1s = [entry["validation/f1"] for entry in record.history]
    assert load_record(uninterrupted.best).history[-1]["validation/f1"] == max(f1s)
    assert record.ended == "all 2 epoch(s) were completed"
    assert record.operating_points, "there are unanswerable questions"


# Early stopping


@pytest.mark.full
def test_patience_stops_training_and_keeps_the_best(data: TrainingData, tmp_path: Path) -> None:
    variant = small(epochs=30, patience=1, learning_rate=1e-9)
    fitted = run(tmp_path, data, variant)
    record = load_record(fitted.last)
    assert record.ended is not None and "has not improved for 1 epoch(s)" in record.ended
    assert len(record.history) == 2
    assert len(load_record(fitted.best).history) == 1, "of equal ones the first"
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (logged,) = client.search_runs(["1"])
    assert {"validation/f1", "dev/f1", "elapsed_seconds"} <= set(logged.data.metrics)
    # The threshold maximises validation F1, so there it is no worse than argmax.
    for entry in record.history:
        assert entry["validation/f1_at_threshold"] >= entry["validation/f1"] - 1e-9
        assert entry["dev/avna_at_threshold"] >= entry["dev/em_at_threshold"]
        # No context is too long here.
        for name in ("em", "f1", "avna"):
            assert entry[f"dev/{name}_within"] == pytest.approx(entry[f"dev/{name}"])
        assert entry["dev/nll_within"] == entry["dev/nll"]
    assert {"validation/threshold", "dev/f1_at_threshold", "dev/ece"} <= set(logged.data.metrics)
    (tmp_path / "out").mkdir()
    facts = write_outputs(tmp_path / "out", make_job(tmp_path, data, variant), fitted)
    assert facts["epoch"] == 1
    config = json.loads((tmp_path / "out" / "model" / "config.json").read_text())
    assert config["operating_points"] == load_record(fitted.best).operating_points
    assert trained_contexts(tmp_path / "out" / "model") == fingerprints([data.train.ingested])
    assert facts["scores"]["seconds"] == record.history[-1]["seconds"], "of all epochs"
    assert facts["scores"]["seconds"] > record.history[0]["seconds"]


@pytest.mark.full
def test_time_budget_stops_after_a_scored_step(data: TrainingData, tmp_path: Path) -> None:
    without = replace(data, validation=None)
    fitted = run(tmp_path, without, small(epochs=9, max_minutes=1e-6), workers=2)
    record = load_record(fitted.last)
    assert record.ended == "the time limit of 1e-06 minute(s) was reached"
    (entry,) = record.history
    assert entry["step"] == 1
    assert {"dev/f1", "train/nll"} <= entry.keys()
    assert "dev/ece" in entry
    assert not [name for name in entry if "validation" in name or "threshold" in name]
    assert fitted.best == fitted.last


@pytest.mark.full
def test_diverging_training_stops_with_a_user_error(
    data: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(progress_reporter, "logger", lambda: SimpleNamespace(info=lines.append))
    variant = small(optimizer="adadelta", learning_rate=1e30, precision="bfloat16")
    sentence = (
        r"^char diverged: the loss of step 2 is nan\. Set learning_rate below 1e\+30, "
        r"or set precision to float32\.$"
    )
    with pytest.raises(UserError, match=sentence):
        run(tmp_path, data, variant, workers=2)
    warnings = [line for line in lines if SLOW_PRECISION in line]
    assert len(warnings) == is_slow("bfloat16", torch.device("cpu"))
