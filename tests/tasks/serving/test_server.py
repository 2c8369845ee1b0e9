"""Following the champion in a real registry."""

import threading
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from infra.errors import UserError
from tasks.serving import server as server_module
from tasks.serving.replica import load_published
from tasks.serving.server import Champion, keep_running
from tasks.tracking import registry
from tasks.tracking.client import mlflow_client
from tests.factories.services import wait
from tests.factories.serving import NAME, register_untrained
from tests.factories.tracking_store import recording_at


@pytest.fixture(scope="module")
def store(mlflow_tables: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a registry."""
    folder = tmp_path_factory.mktemp("mlflow")
    with recording_at(f"sqlite:///{folder}/mlflow.db"):
        register_untrained(folder / "model")
        yield folder


@pytest.fixture
def folder(store: Path, tmp_path: Path) -> Champion:
    promote("1")
    (tmp_path / "versions").mkdir()
    return Champion(tmp_path / "versions", NAME)


def promote(version: str) -> None:
    registry.set_champion(registry.find_version(f"{NAME}/{version}"))


def version_of(folder: Champion) -> str:
    return load_published(folder.folder).version


def follows() -> float | None:
    return REGISTRY.get_sample_value("bidaflow_follows_champion")


def test_new_champion_is_published_if_it_answers(folder: Champion) -> None:
    folder.update()
    assert version_of(folder) == "1"
    promote("3")
    with pytest.raises(UserError, match=f"{NAME} version 3 can't be served .* Promote another"):
        folder.update()
    assert version_of(folder) == "1"
    for version in "2121":
        promote(version)
        folder.update()
        assert version_of(folder) == version
    assert len([path for path in folder.folder.iterdir() if path.is_dir()]) == 2


def test_without_mlflow_the_last_version_goes_on(
    folder: Champion, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("POLL_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(server_module, name, 0.05)
    folder.update()
    stop = threading.Event()
    follower = threading.Thread(target=folder.follow, args=(stop,))
    follower.start()
    try:
        wait("the first lookup", lambda: follows() == 1)
        database = store / "mlflow.db"
        database.rename(store / "away.db")
        wait("the failure in the metrics", lambda: follows() == 0)
        assert version_of(folder) == "1"
        (store / "away.db").rename(database)
        promote("2")
        wait("the new version", lambda: version_of(folder) == "2")
        wait("the success in the metrics", lambda: follows() == 1)
    finally:
        stop.set()
        follower.join()


def test_no_champion(folder: Champion) -> None:
    mlflow_client().delete_registered_model_alias(NAME, registry.CHAMPION)
    with pytest.raises(UserError, match=r"made has no champion yet\. Train one: bidaflow retrain"):
        folder.update()
    with (
        recording_at("sqlite:////nowhere/mlflow.db"),
        pytest.raises(UserError, match="made has no champion yet"),
    ):
        folder.update()


def test_ended_processes_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    created: list[BaseProcess] = []

    def create() -> BaseProcess:
        made = get_context("fork").Process(target=time.sleep, args=(60,), daemon=True)
        created.append(made)
        return made

    def running() -> int:
        return sum(process.pid is not None and process.is_alive() for process in created)

    stop = threading.Event()
    keeper = threading.Thread(target=keep_running, args=(create, 2, stop))
    keeper.start()
    try:
        wait("two processes", lambda: running() == 2)
        dead = tmp_path / f"gauge_livesum_{created[0].pid}.db"
        dead.touch()
        created[0].kill()
        wait("a third one", lambda: len(created) == 3 and running() == 2)
        assert not dead.exists(), "its gauges do not count"
    finally:
        stop.set()
        keeper.join(30)
    assert running() == 0
