"""The files of a finished training."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from infra.artifacts.manifest import stages_folder
from models.predict import TEMPERATURES
from tasks.inference.model_folder import COMMON_FILES
from tasks.inference.predictor import Predictor
from tests.factories.training_data import make_job, prepare, small, train_here


def test_models_of_a_root_share_their_vectors_on_disk(root: Path, tmp_path: Path) -> None:
    data = prepare(tmp_path, articles=1)
    trained = []
    for seed in (0, 1):
        outputs = train_here(tmp_path / str(seed), make_job(tmp_path, data, small(seed=seed)))
        stage = stages_folder() / "train" / str(seed)
        stage.parent.mkdir(parents=True, exist_ok=True)
        trained.append(outputs.rename(stage) / "model")
    first, second = trained
    for name in COMMON_FILES:
        assert (first / name).samefile(second / name)
    assert not (first / "weights.safetensors").samefile(second / "weights.safetensors")
    shutil.rmtree(first)
    (row,) = Predictor.load(second).answer([("Who?", "The owl.")])
    assert not row["error"]


def test_temperature_of_validation_is_applied(tmp_path: Path) -> None:
    data = prepare(tmp_path, articles=1)
    job = make_job(tmp_path, data, small())
    scaled = train_here(tmp_path / "scaled", job)
    unscaled = train_here(tmp_path / "unscaled", replace(job, data=replace(data, validation=None)))
    temperatures = [
        json.loads((out / "model" / "config.json").read_text())["temperature"]
        for out in (scaled, unscaled)
    ]
    assert temperatures[0] in TEMPERATURES and temperatures[0] != temperatures[1] == 1
    assert Predictor.load(scaled / "model").temperature == temperatures[0]
    after, before = (pq.read_table(out / "predictions.parquet") for out in (scaled, unscaled))
    for column in ("id", "prediction", "em", "f1", "best_prediction"):
        assert after[column] == before[column], "answers stay the same"
    assert after["uncalibrated_score"] == before["uncalibrated_score"] == before["score"]
    margins = [
        own["no_answer_score"].to_numpy() - own["best_score"].to_numpy() for own in (after, before)
    ]
    assert np.allclose(margins[0] * temperatures[0], margins[1], atol=1e-4)
    assert not np.allclose(after["score"].to_numpy(), before["score"].to_numpy())
