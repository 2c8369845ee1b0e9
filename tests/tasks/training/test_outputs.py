"""The files of a finished training."""

import shutil
from pathlib import Path

from infra.artifacts.manifest import stages_folder
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
