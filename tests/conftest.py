"""Fixtures shared by all tests, and the rule that nothing is skipped in continuous integration."""

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Before anything reads it: the tests' state is their own, never the checkout's.
os.environ["BIDAFLOW_ROOT"] = tempfile.mkdtemp(prefix="bidaflow-tests-")

# Some are started with Ctrl-C ignored, as what a shell runs behind "&" is, and hand that on.
signal.signal(signal.SIGINT, signal.default_int_handler)

from infra import environment  # noqa: E402

environment.apply()

import pytest  # noqa: E402
from hypothesis import settings as hypothesis_settings  # noqa: E402

from infra.settings import CHECKOUT  # noqa: E402

# The same examples in every run, which so says the same of the same code; --hypothesis-profile=new
# tries others.
hypothesis_settings.register_profile("new", deadline=None)
hypothesis_settings.register_profile("bidaflow", deadline=None, derandomize=True)
hypothesis_settings.load_profile("bidaflow")

SHARED_DATA = CHECKOUT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the checkout."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real data are not there: {SHARED_DATA}")
    return SHARED_DATA


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In continuous integration a skipped test is a failure, unless it needs a GPU."""
    if not os.environ.get("CI") or exitstatus != pytest.ExitCode.OK:
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # one of several processes, whose reports the first one has
        return
    skipped = [r for r in reporter.stats.get("skipped", []) if "gpu" not in r.keywords]
    if skipped:
        reporter.write_line(f"Skipped in continuous integration: {[r.nodeid for r in skipped]}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A process's temporary Prefect server, with a database and results of its own."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=300):
        yield


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A storage root of the test's own."""
    monkeypatch.setenv("BIDAFLOW_ROOT", str(tmp_path / "root"))
    return tmp_path / "root"
