"""Promotion and rollback by hand, with servers that several machines share."""

from pathlib import Path
from threading import Event, Thread

import pytest
from urllib3.util import Retry

from flows.__main__ import prepare_server
from flows.commands.maintenance import promote, rollback
from infra.artifacts.locks import lease
from infra.errors import UserError
from infra.settings import settings
from tasks.tracking import registry
from tests.factories.ports import free_port
from tests.factories.registered import NAME, alias, register_versions
from tests.factories.services import wait


@pytest.mark.usefixtures("root")
def test_rollback_needs_the_mlflow_server(monkeypatch: pytest.MonkeyPatch) -> None:
    # MLflow itself retries for two minutes.
    monkeypatch.setattr(Retry, "sleep", lambda *_: pytest.fail("it retried"))
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(UserError, match="No MLflow server responds"):
        rollback("planted")


def test_promotion_by_hand_can_be_rolled_back(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register_versions(champion="1")
    promote(f"models:/{NAME}/2")
    promote(f"models:/{NAME}/2")
    assert capsys.readouterr().out.splitlines() == [
        f"Version 2 of {NAME} is now the champion; version 1 is now the previous champion.",
        f"Version 2 of {NAME} is the champion already.",
    ]
    promoted = registry.find_version(f"models:/{NAME}@champion")
    assert promoted.tags["promotion"].endswith("is now the champion: promoted by hand.")
    rollback("planted")
    assert (alias(registry.CHAMPION), alias(registry.PREVIOUS)) == ("1", None)
    restored = registry.find_version(f"models:/{NAME}@champion")
    assert restored.tags["promotion"].endswith("is the champion again: rolled back by hand.")
    with pytest.raises(UserError, match=f"{NAME} has no version 3 in MLflow"):
        promote(f"models:/{NAME}/3")


@pytest.mark.heavy
@pytest.mark.usefixtures("prefect_server", "store")
def test_rollback_waits_for_another_machine() -> None:
    registry.find("bidaf-planted", registry.CHAMPION)  # creates the database
    ended = Event()

    def roll_back() -> None:
        with pytest.raises(UserError, match="no previous champion"):
            rollback("planted")
        ended.set()

    thread = Thread(target=roll_back)
    lock = settings().root.resolve() / "locks" / "promotion-bidaf-planted"
    with lease("promotion-bidaf-planted", strict=True):
        thread.start()
        wait("the lock that it takes before the lease", lock.exists)
        assert not ended.wait(5)
    thread.join()
    assert ended.is_set()


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("command", ["promote", "rollback"])
def test_shared_root_needs_prefect(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{free_port()}/api")
    prepare_server([command, "tickets"])  # without a server, since the root is a folder
    monkeypatch.setenv("BIDAFLOW_ROOT", "s3://results/team")
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", "http://mlflow.example:5000")
    with pytest.raises(UserError, match="No Prefect server responds"):
        prepare_server([command, "tickets"])
