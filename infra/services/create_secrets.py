"""Creates random secrets for the services of a cluster, one file each.

Usage: python -m infra.services.create_secrets secrets

The folder is closed to other users of this machine. Its files are readable: containers mount single
files of it, and read them as other users. Existing files are kept, because databases remember the
passwords that they were created with.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex

from infra.atomic_files import write_atomically
from infra.errors import UserError

MLFLOW_USERS = """\
[mlflow]
default_permission = READ
admin_username = admin
database_uri = {database}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
# Checking a password takes a tenth of a second, so a check is valid for a minute.
auth_cache_ttl_seconds = 60
"""
S3_USERS = """\
{{"identities": [{{
  "name": "bidaflow",
  "credentials": [{{"accessKey": "{key}", "secretKey": "{secret}"}}],
  "actions": ["Admin", "Read", "Write", "List", "Tagging"]
}}]}}
"""


def create_secrets(folder: Path) -> list[str]:
    """Create the missing secrets in a folder; returns their names.

    Raises:
        UserError: the folder can't be written, or has only a part of the secrets.
    """
    secrets = new_secrets()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        missing = [name for name in secrets if not (folder / name).exists()]
        if 0 < len(missing) < len(secrets):
            raise UserError(
                f"{folder} lacks {', '.join(missing)}, which must match its other files. Restore "
                "them, or remove the folder and the volumes of the services."
            )
        for name in missing:
            write_atomically(folder / name, secrets[name])
            (folder / name).chmod(0o444)
    except OSError as error:
        raise UserError(
            f"Can't write secrets to {folder}: {error.strerror}. Choose a folder that you can "
            "write to."
        ) from error
    return missing


def new_secrets() -> Mapping[str, str]:
    """The content of each file, with new random passwords."""
    password, key, secret = token_hex(24), token_hex(10), token_hex(24)
    server = f"bidaflow:{password}@postgresql:5432"
    database = f"postgresql+psycopg://{server}"
    return {
        "postgresql_password": password,
        "prefect_database": f"postgresql+asyncpg://{server}/prefect",
        "prefect_login": f"admin:{token_hex(24)}",
        "mlflow_database": f"{database}/mlflow",
        "mlflow_users.ini": MLFLOW_USERS.format(database=f"{database}/mlflow_auth"),
        "mlflow_password": token_hex(24),
        "mlflow_session_key": token_hex(32),
        "auth_token": token_hex(32),  # the key that KubeRay reads Ray's token from
        "serve_token": token_hex(32),
        "s3_key": key,
        "s3_secret": secret,
        "s3_users.json": S3_USERS.format(key=key, secret=secret),
    }


def main() -> None:
    """Create the secrets in the folder that the argument names."""
    if len(sys.argv) != 2:
        sys.exit("Usage: python -m infra.services.create_secrets FOLDER")
    folder = Path(sys.argv[1])
    try:
        created = create_secrets(folder)
    except UserError as error:
        sys.exit(str(error))
    print(f"Created {len(created)} secrets in {folder}." if created else f"{folder} has them all.")


if __name__ == "__main__":
    main()
