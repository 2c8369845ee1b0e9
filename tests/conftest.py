"""Fixtures shared by all tests, and rules for a whole run: its state is its own, its processes end,
and with `BIDAFLOW_TEST_NO_SKIPS` it skips nothing but what needs a GPU."""

import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

# Before anything reads the environment: the tests' state is their own, never the user's, and so are
# the servers and clusters that they use.
FOREIGN_PREFIXES = ("BIDAFLOW_", "PREFECT_", "MLFLOW_", "RAY_")
TEST_PREFIX = "BIDAFLOW_TEST_"
TERMINAL_VARIABLES = ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""Those with which a user changes colors, width and animations of the output."""
RUN_VARIABLE = "BIDAFLOW_TEST_RUN"
"""Marks every process that a run of the tests starts, however deep."""
ROOTS_VARIABLE = "BIDAFLOW_TEST_ROOTS"
"""The folder of all storage roots of a run; its first process creates and removes it."""
NO_SKIPS_VARIABLE = "BIDAFLOW_TEST_NO_SKIPS"
"""Set where nothing that the tests need may be missing: a run fails if it skips a test."""
for name in list(os.environ):
    if name.startswith(FOREIGN_PREFIXES) and not name.startswith(TEST_PREFIX):
        del os.environ[name]
for name in TERMINAL_VARIABLES:
    os.environ.pop(name, None)
os.environ.setdefault(RUN_VARIABLE, uuid4().hex)
if ROOTS_VARIABLE not in os.environ:
    os.environ[ROOTS_VARIABLE] = tempfile.mkdtemp(prefix="bidaflow-tests-")
os.environ["BIDAFLOW_ROOT"] = tempfile.mkdtemp(dir=os.environ[ROOTS_VARIABLE])

# Some are started with Ctrl-C ignored, as what a shell runs behind "&" is, and hand that on.
signal.signal(signal.SIGINT, signal.default_int_handler)

from infra import environment  # noqa: E402
from infra.storage.root_format import require_format  # noqa: E402

environment.apply()
require_format()

# Ray gives its workers the lowest priority but four. Next to any busy program they would get a few
# per cent of a core, and trainings would take twenty times as long.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - the name that Ray reads

import psutil  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings as hypothesis_settings  # noqa: E402
from xdist.scheduler import LoadFileScheduling  # noqa: E402

from infra.errors import UserError  # noqa: E402
from infra.settings import CHECKOUT  # noqa: E402
from tests.factories.cli import kill  # noqa: E402
from tests.recording import record  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.factories.object_store import ObjectStore
    from tests.factories.services import Services

# The same examples in every run, so that it says the same of the same code;
# --hypothesis-profile=new tries others.
hypothesis_settings.register_profile("new", deadline=None)
hypothesis_settings.register_profile("bidaflow", deadline=None, derandomize=True)
hypothesis_settings.load_profile("bidaflow")

SHARED_DATA = CHECKOUT.parent / "shared" / "data"
GROUPS = {
    "up": (
        "tests/infra/services/test_supervisor.py",
        "tests/integration/test_prefect_pages.py",
        "tests/integration/test_operation.py",
    ),
    "ray": (
        "tests/integration/test_compare.py",
        "tests/integration/test_language_model.py",
        "tests/integration/test_long_contexts.py",
        "tests/integration/test_trainings.py",
        "tests/integration/test_own_cluster.py",
        "tests/tasks/training/test_language_model_worker.py",
        "tests/tasks/training/test_worker.py",
    ),
}
"""Files that share one `up`, and files that share one Ray cluster."""
EXIT_SECONDS = 120
"""A process of the tests may take this long to end after the last test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record", type=Path, help="file for the run's duration, test counts and slowest tests"
    )


class Scheduling(LoadFileScheduling):
    """A file's tests run in one process, and so do those of all files that share a service."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the groups that share a service: they take longest."""
    groups = list(GROUPS)
    items.sort(key=lambda item: [*groups, group_of(item.nodeid)].index(group_of(item.nodeid)))


def group_of(nodeid: str) -> str:
    """The group of a test's file, or the file itself."""
    file = nodeid.partition("::")[0]
    return next((name for name, files in GROUPS.items() if file in files), file)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the shared Ray cluster with its group: what follows in the process would use it, too."""
    if nextitem and group_of(item.nodeid) == "ray" != group_of(nextitem.nodeid):
        from infra.cluster.ray_cluster import disconnect

        disconnect()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that left processes behind, and one that skipped tests though it must not."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or "PYTEST_XDIST_WORKER" in os.environ:
        return  # the first process sees the whole run
    problems = [f"process still running after the tests: {p}" for p in end_leftover_processes()]
    if os.environ.get(NO_SKIPS_VARIABLE):
        skipped = [r for r in reporter.stats.get("skipped", []) if "gpu" not in r.keywords]
        problems += [
            f"{count} tests skipped, which {NO_SKIPS_VARIABLE} does not allow: {reason}"
            for reason, count in reasons_of(skipped).items()
        ]
    for problem in problems:
        reporter.write_line(problem)
    if problems and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if file := session.config.getoption("record"):
        record(file, reporter, session.config.invocation_params.args, int(session.exitstatus))
    shutil.rmtree(os.environ[ROOTS_VARIABLE], ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once for each reason why tests were skipped; pytest would say it for each test."""
    for reason, count in reasons_of(terminalreporter.stats.get("skipped", [])).items():
        terminalreporter.write_line(f"{count} skipped: {reason}")


def reasons_of(skipped: list[pytest.TestReport]) -> Counter[str]:
    """How many tests were skipped for each reason."""
    # The reason comes after the file and the line.
    return Counter(str(r.longrepr[2]).removeprefix("Skipped: ") for r in skipped)


def end_leftover_processes() -> list[str]:
    """Kill the processes that the run has left behind; their command lines."""
    current = psutil.Process()
    spared = {current.pid, *(process.pid for process in current.parents())}
    others = [p for p in psutil.process_iter() if p.pid not in spared and belongs_to_this_run(p)]
    command_lines = {process.pid: command_line_of(process) for process in others}
    # The helper of process pools ends with this process, not before.
    others = [p for p in others if "multiprocessing.resource_tracker" not in command_lines[p.pid]]
    _, leftover = psutil.wait_procs(others, timeout=EXIT_SECONDS)
    kill(leftover)
    return [f"{process.pid} {command_lines[process.pid]}" for process in leftover]


def command_line_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())[:200]
    except psutil.Error:
        return "ended"


def belongs_to_this_run(process: psutil.Process) -> bool:
    try:
        return process.environ().get(RUN_VARIABLE) == os.environ[RUN_VARIABLE]
    except psutil.Error:
        return False


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the checkout."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the real datasets in {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """A process's temporary Prefect server, with a database and results of its own.

    Flows send no heartbeats: the thread that does would hold up the end of each for half a second.
    """
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    with (
        temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}),
        prefect_test_harness(server_startup_timeout=300),
    ):
        yield


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A Ray cluster of this process, which the flows and trainings of its tests join.

    The files that use it belong to the group "ray", so that one process starts it for all.
    """
    from infra.cluster.ray_cluster import disconnect

    connect_patiently()
    yield
    disconnect()


def connect_patiently() -> None:
    """Start a Ray cluster; a busy machine may need more than the 30 seconds that Ray waits."""
    from infra.cluster.ray_cluster import connect

    earlier = set(psutil.Process().children(recursive=True))
    for _ in range(2):
        with suppress(UserError):
            connect()
            return
        kill(set(psutil.Process().children(recursive=True)) - earlier)
    connect()


@pytest.fixture(scope="session")
def shared_services(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Services"]:
    """The services of `up` for all files of the group "up", not started yet."""
    from tests.factories.services import Services

    shared = Services(tmp_path_factory.mktemp("up"))
    yield shared
    shared.clean_up()


@pytest.fixture(scope="module")
def services(shared_services: "Services") -> "Services":
    """The running services of `up`; started for the first file, and again after a test's `down`."""
    if not shared_services.is_up:
        shared_services.up()
    return shared_services


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    """The system's browser, headless."""
    from tests.factories.browser import browser

    with browser() as opened:
        yield opened


@pytest.fixture(scope="session")
def mlflow_tables() -> Iterator[None]:
    """Quickly made databases of MLflow."""
    from tests.factories.mlflow_tables import migrated_once

    with migrated_once():
        yield


@pytest.fixture
def root(mlflow_tables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new storage root of the test's own."""
    monkeypatch.setenv("BIDAFLOW_ROOT", str(tmp_path / "root"))
    require_format()
    return tmp_path / "root"


@pytest.fixture(scope="session")
def object_store_server() -> Iterator["ObjectStore"]:
    """A process's S3 server."""
    from tests.factories.object_store import object_store

    with object_store() as store:
        yield store


@pytest.fixture
def store(
    object_store_server: "ObjectStore", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> "ObjectStore":
    """The S3 server, of which a folder is the storage root of the test."""
    for name, value in object_store_server.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BIDAFLOW_ROOT", f"s3://results/{tmp_path.name}")
    monkeypatch.setenv("BIDAFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    object_store_server.requests.clear()
    return object_store_server


@pytest.fixture
def other_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function that continues the test as a machine with an empty cache."""
    return lambda: monkeypatch.setenv("BIDAFLOW_CACHE", str(tmp_path / "other cache"))
