"""What a job takes along to the nodes of a cluster: our packages, and the addresses that it uses.

The nodes need the dependencies, not our code. Secrets do not travel: Ray shows these variables in
its dashboard and logs. Each node has its own credentials, cache and limits.
"""

import os
from pathlib import Path
from urllib.parse import urlsplit
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from infra.errors import UserError
from infra.masking import mask_secrets
from infra.own_packages import PACKAGES
from infra.settings import CHECKOUT, settings

# Variables that have the same value on all nodes, if they are set.
FORWARDED = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("MLFLOW_S3_ENDPOINT_URL", "MLFLOW_DISABLE_TELEMETRY"),
)


def write_code(file: Path) -> None:
    """Write a zip of our packages; the same sources give the same bytes."""
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for source in sorted((CHECKOUT / package).rglob("*")):
                if source.is_file() and "__pycache__" not in source.parts:
                    # A ZipInfo of our own has neither the time nor the rights of the file.
                    name = ZipInfo(source.relative_to(CHECKOUT).as_posix())
                    name.external_attr = 0o644 << 16
                    archive.writestr(name, source.read_bytes(), ZIP_DEFLATED)


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
