"""Machines that share nothing but an S3 server and MLflow: one trains and is killed, another one
resumes its training, and a third one takes everything from the first two."""

from pathlib import Path

import pytest

from tests.factories.cli import write_dataset
from tests.factories.cluster_run import Run
from tests.factories.object_store import object_store

pytestmark = [pytest.mark.heavy, pytest.mark.full]


def test_machines_share_stages_and_checkpoints(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data")
    with Run("train", data, tmp_path / "local") as local:
        local.finish()
    with object_store() as store:
        shared = store.variables | {"BIDAFLOW_ROOT": "s3://results/team"}
        shared["BIDAFLOW_MLFLOW_TRACKING_URI"] = f"sqlite:///{tmp_path}/mlflow.db"
        with Run("train", data, tmp_path / "first", shared) as first:
            first.read_until("epoch 2:")
        assert first.process.returncode and first.digests(), "killed after its data steps"
        with Run("train", data, tmp_path / "second", shared) as second:
            second.finish()
        assert "epoch 3:" in second.output
        assert "epoch 1:" not in second.output, "it resumed from the checkpoint of the first one"
        assert second.digests() == local.digests() != first.digests()
        assert first.digests().items() < second.digests().items()
        with Run("train", data, tmp_path / "third", shared) as third:
            third.finish()
        assert "Nothing to do" in third.output
        assert third.digests() == second.digests()
