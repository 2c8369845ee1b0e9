"""An installation in a folder whose name has spaces, brackets, quotes and other special characters:
it trains, and its services start runs."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories.cli import QUICK, tests_server, write_dataset
from tests.factories.services import Server, Services, parameters
from tests.factories.special_path import NAME, checkout_in, remove_links

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A checkout in such a folder, with its environment and a dataset."""
    folder = tmp_path_factory.mktemp("special") / NAME
    folder.mkdir()
    checkout_in(folder)
    write_dataset(folder / "own data")
    (folder / "temporary").mkdir()
    yield folder
    remove_links(folder)


@pytest.mark.full
def test_make_retrain_trains(checkout: Path, prefect_server: None) -> None:
    others = ("BIDAFLOW_ROOT", "PREFECT_HOME", "PYTHONPATH", "RAY_TMPDIR")
    kept = {n: v for n, v in os.environ.items() if n not in others and not n.startswith("MAKE")}
    done = subprocess.run(
        ["make", "retrain", "DATASET=own data", f"ARGS=--variants char {' '.join(QUICK)}"],
        cwd=checkout,
        env={**kept, **tests_server(), "TMPDIR": str(checkout / "temporary")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "was not promoted" in " ".join(done.stdout.split()), done.stdout
    assert list((checkout / ".bidaflow" / "stages" / "train").glob("[!.]*/model"))
    assert list((checkout / "temporary" / "ray").iterdir())


@pytest.mark.full
def test_services_start_runs(checkout: Path) -> None:
    command = str(checkout / ".venv" / "bin" / "bidaflow")
    services = Services(checkout / "another root", command, checkout)
    del services.environment["PYTHONPATH"]
    try:
        services.up()
        server = Server(services)
        run_id = server.start(parameters(checkout / "own data"))
        assert server.outcome(run_id) == "Completed", server.logs(run_id)
    finally:
        services.clean_up()
