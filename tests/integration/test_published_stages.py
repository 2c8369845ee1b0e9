"""Lineage and pruning of stages that other machines published."""

from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from infra.artifacts.manifest import hash_file, stages_folder
from infra.artifacts.remote import ensure_local, published
from infra.settings import settings
from tasks.tracking.garbage_collection import find_garbage, prune
from tasks.tracking.lineage import ancestors, finished_stages
from tests.factories.stages import Trained, trained

pytestmark = [
    pytest.mark.full,
    pytest.mark.heavy,
    pytest.mark.usefixtures("prefect_server", "store"),
]


def here(folder: Path) -> Path:
    """The folder of a stage in the cache of the current machine."""
    return stages_folder() / folder.parent.name / folder.name


def test_other_machine_traces_and_prunes(
    tmp_path: Path, other_machine: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one two two three three three")
    old, new = trained([file], 1), trained([file], 2)
    other_machine()
    uri = settings().tracking_uri

    stages = finished_stages()
    assert {stage.folder for stage in stages.values()} == folders(old) | folders(new)
    name = f"train/{old.model.name}"
    assert ancestors(stages, [name]) == {f"{f.parent.name}/{f.name}" for f in folders(old)}
    for ancestor in ancestors(stages, [name]):
        ensure_local(stages[ancestor].folder)
    entry = stages[name].manifest["files"]["model.json"]
    assert hash_file(here(old.model) / "model.json") == entry["sha256"]

    assert find_garbage() == []
    MlflowClient(uri).delete_run(old.run_id)
    assert find_garbage() == [], "another machine may be using new stages"
    monkeypatch.setenv("BIDAFLOW_TIME_LIMIT_HOURS", "0.000001")
    garbage = {here(old.model), here(old.counts)}
    assert {item.path for item in find_garbage()} == garbage
    assert all(item.bytes > 0 for item in find_garbage())
    assert {item.path for item in prune()} == garbage
    assert [folder for folder in garbage if folder.exists() or published(folder)] == []
    assert all(published(folder) for folder in folders(new))
    assert find_garbage() == []


def folders(training: Trained) -> set[Path]:
    return {here(folder) for folder in (training.words, training.counts, training.model)}
