"""What Ray writes for a cluster is removed by who started it, and by nobody else."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from infra.settings import CHECKOUT
from tasks import cluster

pytestmark = pytest.mark.heavy


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where Ray keeps its sessions, by a path short enough for its sockets."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as made:
        monkeypatch.setenv("RAY_TMPDIR", made)
        yield Path(made) / "ray"


def test_only_a_session_that_was_started_here_is_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = folder / "session_of_another"
    another.mkdir(parents=True)
    cluster.connect()
    try:
        (session,) = set(folder.glob("session_2*"))
        address = ray.get_runtime_context().gcs_address
        with monkeypatch.context() as joined:
            joined.setenv("RAY_ADDRESS", address)
            code = "from tasks import cluster; cluster.connect(); cluster.disconnect()"
            subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, check=True)
        assert (session / "logs").is_dir()
    finally:
        cluster.disconnect()
    assert set(folder.glob("session_*")) == {another}
