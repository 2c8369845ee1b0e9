"""Environment of every pipeline process: quiet, offline, with all state under one root."""

import io
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from infra import processes
from infra.errors import UserError
from infra.plain_paths import use_plain_paths
from infra.proxies import spare_own_servers
from infra.settings import LOOPBACK, settings

# Variables for a cluster that is started here, not joined through RAY_ADDRESS.
RAY_ON_THIS_MACHINE = {
    # Preemptions are not announced here, and the watcher for them floods the terminal.
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    # Keeps Ray on the loopback interface; despite its name, it also works on Linux.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Ray would start a worker for each CPU that no job of ours can use.
    "RAY_prestart_worker_first_driver": "0",
}

OPEN_FILES = 65_536

# Has the URL of the API of a Prefect server that serves only the process that started it.
TEMPORARY_SERVER = "BIDAFLOW_TEMPORARY_SERVER"


def variables() -> dict[str, str]:
    """Variables for Prefect, Ray and MLflow; the caller's environment takes precedence."""
    services = processes.read_record()
    return {
        **(_of_running(services) if services and services.supervisor.alive else {}),
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(settings().root.resolve() / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        # The V2 pages drop a schedule's parameters when it is paused, and ask Prefect's site for
        # analytics settings.
        "PREFECT_SERVER_UI_V2_ENABLED": "false",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        # By default any web page could use the server through the browser of its visitor, and so
        # run commands here.
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ",".join(
            f"http://{host}:{settings().prefect_port}" for host in (LOOPBACK, "localhost")
        ),
        # By default a restart of the server loses its leases: the slots of killed runs stay taken,
        # and a run that continues can't renew its own.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
            "prefect.server.concurrency.lease_storage.filesystem"
        ),
        # Hides the notices of temporary servers, but not the lines of runs and workers.
        "PREFECT_LOGGING_LOGGERS_PREFECT_LEVEL": "WARNING",
        "PREFECT_LOGGING_LOGGERS_PREFECT_FLOW_RUNS_LEVEL": "INFO",
        "PREFECT_LOGGING_LOGGERS_PREFECT_TASK_RUNS_LEVEL": "INFO",
        "PREFECT_LOGGING_LOGGERS_PREFECT_WORKERS_LEVEL": "INFO",
        # The very first start creates the server's database, which can take half a minute, and
        # several times as long on a busy machine.
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "300",  # as for Prefect's server
        # By default Ray checks its workers once a second, which makes each run 10 s longer.
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
        # A worker that hangs counts as failed, and is replaced. The others wait longest for the
        # first one, which alone computes the scores of an epoch and sends them to MLflow. That
        # takes minutes, and no more than the 30 that torch lets them wait in their next step.
        "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": "1800",
        # Workers' lines reach the terminal anyway; Ray Train would log each a second time.
        "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
        # Parallel trainings log similar lines; Ray must not drop any as duplicates.
        "RAY_DEDUP_LOGS": "0",
        **({} if os.environ.get("RAY_ADDRESS") else RAY_ON_THIS_MACHINE),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # MLflow would start eight more processes, for jobs that the pipeline does not use.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "GIT_PYTHON_REFRESH": "quiet",
    }


def _of_running(services: processes.ServicesRecord) -> dict[str, str]:
    """Variables for the servers of `bidaflow up`: flows started by hand appear in its UI, and link
    to its pages, whatever ports it was started with. Without it, each starts its own server."""
    urls = {"PREFECT_API_URL": f"{services.prefect_url}/api"}
    mlflow = urlsplit(services.mlflow_url)
    if mlflow.hostname == LOOPBACK and mlflow.port is not None:
        urls["BIDAFLOW_MLFLOW_PORT"] = str(mlflow.port)
    return urls


def apply() -> None:
    """Set the variables that are not set yet. Call this before importing Prefect, Ray or MLflow.

    Raises:
        UserError: a variable is invalid, or the storage root can't be written to.
    """
    _print_any_text()
    _raise_file_limit()
    use_plain_paths()
    spare_own_servers()
    try:
        for name, value in variables().items():
            os.environ.setdefault(name, value)
        Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # the latter: an unknown ~user, a link to itself
        reason = error.strerror if isinstance(error, OSError) else error
        place = error.filename if isinstance(error, OSError) else settings().location
        raise UserError(
            f"Can't write to {place}: {reason}. Set BIDAFLOW_"
            f"{'CACHE' if settings().address else 'ROOT'} to a folder that you can write to."
        ) from error
    if "PREFECT_API_URL" in os.environ:  # paths are appended to it
        os.environ["PREFECT_API_URL"] = os.environ["PREFECT_API_URL"].rstrip("/")


def _print_any_text() -> None:
    """Let characters that the terminal or pipe can't encode be printed as escapes: a command must
    not fail because of them when its work is done. Standard error does so by default."""
    defaults = ("strict", "surrogateescape")  # the latter in the C locale
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in defaults:
        sys.stdout.reconfigure(errors="backslashreplace")


def _raise_file_limit() -> None:
    """Allow this process and its children more open files, as a run holds the lock file of each
    stage that it uses, and each input file has stages of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with suppress(ValueError, OSError):  # macOS may refuse it
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
