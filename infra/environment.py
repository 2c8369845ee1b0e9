"""Environment of every process of the pipeline: quiet, offline, state under one root.

As a command it runs another one in that environment: `python -m infra.environment prefect …`.
"""

import os
import sys
from pathlib import Path

from infra import running_services
from infra.settings import settings

RAY_ON_THIS_MACHINE = {
    # Nobody announces a preemption here, and the watcher for it fills the terminal.
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    # What keeps Ray on the loopback interface on Windows and macOS does so on Linux, too.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
"""For a cluster that is started here, and not joined by RAY_ADDRESS."""


def variables() -> dict[str, str]:
    """What Prefect, Ray and MLflow are told, unless the caller's environment says otherwise."""
    up = running_services.recorded()
    return {
        # A flow started by hand shows in the UI of `make up`; without one it has its own server.
        **({"PREFECT_API_URL": f"{up.prefect_url}/api"} if up and up.supervisor.alive else {}),
        "DO_NOT_TRACK": "1",
        "PREFECT_HOME": str(settings().root.resolve() / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
        # The very first start creates the server's database, which can take half a minute, and
        # some times as long on a machine that has much else to do.
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "300",  # as for Prefect's server
        # Ray looks after its workers once a second by default, which makes each run 10 s longer.
        "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
        # A worker's lines reach the terminal as they are; Train would log each a second time.
        "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
        # Trainings side by side say much the same; each line is wanted.
        "RAY_DEDUP_LOGS": "0",
        **({} if os.environ.get("RAY_ADDRESS") else RAY_ON_THIS_MACHINE),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GIT_PYTHON_REFRESH": "quiet",
    }


def apply() -> None:
    """Set the variables that are not set yet. Call before Prefect, Ray or MLflow is imported."""
    for name, value in variables().items():
        os.environ.setdefault(name, value)
    Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)


if __name__ == "__main__":
    apply()
    os.execvp(sys.argv[1], sys.argv[1:])
