"""What a job takes along to the nodes of a cluster: our packages, and the addresses that it uses.

The nodes need the dependencies, not our code. Secrets do not travel: Ray shows these variables in
its dashboard and logs. Each node has its own credentials, cache and limits.
"""

import os
from urllib.parse import urlsplit

from infra.errors import UserError
from infra.masking import mask_secrets
from infra.own_packages import PACKAGES
from infra.settings import CHECKOUT, settings

# Variables that have the same value on all nodes, if they are set.
FORWARDED = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("MLFLOW_S3_ENDPOINT_URL", "MLFLOW_DISABLE_TELEMETRY"),
)


def others_in_checkout() -> list[str]:
    """What lies beside our packages, and Python's caches in them, as patterns of a .gitignore."""
    others = (path.name for path in CHECKOUT.iterdir() if path.name not in PACKAGES)
    return ["__pycache__", *(f"/{name}" for name in others)]


def forwarded_variables() -> dict[str, str]:
    """The variables with which the processes on the nodes find the storage root and MLflow.

    Raises:
        UserError: MLflow's address contains a password.
    """
    tracking_uri = settings().tracking_uri
    if urlsplit(tracking_uri).password is not None:
        raise UserError(
            f"BIDAFLOW_MLFLOW_TRACKING_URI ({mask_secrets(tracking_uri)}) contains a password, "
            "which Ray would show in its dashboard. Use the address of an MLflow server, and set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD here and on every node."
        )
    return {
        "BIDAFLOW_ROOT": settings().address or str(settings().root.resolve()),
        "BIDAFLOW_MLFLOW_TRACKING_URI": tracking_uri,
        **{name: os.environ[name] for name in FORWARDED if os.environ.get(name)},
    }
