"""Runs MLflow's server in this process, for `bidaflow up`.

`mlflow server` would do the same in a second process, and keep its own 200 MB while it waits.

Usage: python -m infra.services.mlflow_server
"""

import os
import uuid
from pathlib import Path

import uvicorn  # before MLflow, which secures its server if it finds one of these loaded
from mlflow.environment_variables import (
    _MLFLOW_IN_JOB_EXECUTOR,
    _MLFLOW_SERVER_BOOT_ID,
    _MLFLOW_SGI_NAME,
)
from mlflow.server import _UVICORN_LOG_CONFIG, app
from mlflow.server.constants import (
    ARTIFACT_ROOT_ENV_VAR,
    BACKEND_STORE_URI_ENV_VAR,
    REGISTRY_STORE_URI_ENV_VAR,
)
from mlflow.server.handlers import initialize_backend_stores

from infra.services.page_policy import OwnContentOnly
from infra.settings import LOOPBACK, settings
from infra.storage.mlflow_locations import follow_database

# MLflow collects nothing here (MLFLOW_DISABLE_TELEMETRY), but its pages know only what the browser
# has stored. Unless a user has set the switch, they would say that usage data is collected.
TELEMETRY_IS_OFF = """<script>
for (const [key, value] of Object.entries({
  "mlflow.settings.telemetry.enabled_v1": "false",
  "mlflow.telemetry.info.alert.dismissed_v1": "true",
})) if (localStorage.getItem(key) === null) localStorage.setItem(key, value);
</script>"""


def main() -> None:
    """Create the database if it is missing, and serve it until a signal ends the process.

    MLflow passes these variables from its command to its server. Their names are imported, so that
    a version that renames one can't start with another store. Artifacts are not served: runs and
    servers are on one machine, and access artifacts by the same paths.
    """
    store, artifacts = settings().mlflow_database, f"{settings().root.resolve()}/mlartifacts"
    os.environ |= {
        BACKEND_STORE_URI_ENV_VAR: store,
        REGISTRY_STORE_URI_ENV_VAR: store,
        ARTIFACT_ROOT_ENV_VAR: artifacts,
        _MLFLOW_SERVER_BOOT_ID.name: uuid.uuid4().hex,
        _MLFLOW_IN_JOB_EXECUTOR.name: "false",
        _MLFLOW_SGI_NAME.name: "uvicorn",
    }
    initialize_backend_stores(store, store, artifacts)
    follow_database(store)
    app.view_functions["serve"] = first_page
    from mlflow.server.fastapi_app import app as server  # reads the variables

    uvicorn.run(
        OwnContentOnly(server),
        host=LOOPBACK,
        port=settings().mlflow_port,
        log_config=str(_UVICORN_LOG_CONFIG),
    )


def first_page() -> str:
    """The page that all of MLflow's pages are drawn in."""
    page = Path(str(app.static_folder), "index.html").read_text(encoding="utf-8")
    return page.replace("<head>", f"<head>{TELEMETRY_IS_OFF}", 1)


if __name__ == "__main__":
    main()
