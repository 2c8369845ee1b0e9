"""A PostgreSQL server for the databases of Prefect and MLflow, which tests can restart."""

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.factories.accounts import give_to_nobody
from tests.factories.ports import free_port

DATABASES = ("prefect", "mlflow", "mlflow_auth")
USER = "bidaflow"
PASSWORD = "password-of-postgresql"
START_SECONDS = 300  # on a busy machine


class PostgreSQL:
    """The server in a folder, on a port of its own that it keeps when it is restarted."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries = binaries
        self.folder = folder
        self.port = free_port()
        self.account = give_to_nobody(folder)  # PostgreSQL refuses to run as root
        self._create()
        self.start()
        for name in DATABASES:
            self.query(f"CREATE DATABASE {name}")

    def address(self, database: str, driver: str = "postgresql") -> str:
        """SQLAlchemy's address of a database, for example with the driver `postgresql+asyncpg`."""
        return f"{driver}://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def query(self, text: str, database: str = "postgres") -> str:
        """The rows of a query, as psql prints them."""
        return self._run("psql", self.address(database), "-qAtX", "-c", text).stdout

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(self.binaries / "postgres", "-F", "-D", self.folder / "data"),
                    *("-h", "127.0.0.1", "-p", str(self.port), "-k", self.folder),
                ],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                **self.account,
            )
        deadline = time.monotonic() + START_SECONDS
        ready = [self.binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready, check=False).returncode:
            failed = self.process.poll() is not None or time.monotonic() > deadline
            assert not failed, (self.folder / "log").read_text(encoding="utf-8")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the server; it closes all connections."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def restart(self) -> None:
        """Stop the server and start it again; clients lose their connections."""
        self.stop()
        self.start()

    def _create(self) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD, encoding="utf-8")
        password.chmod(0o644)
        options = ("--no-sync", "--username", USER, "--auth", "scram-sha-256", "--encoding", "UTF8")
        self._run("initdb", self.folder / "data", "--pwfile", password, *options)

    def _run(self, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self.binaries / program, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            **self.account,
        )
        assert done.returncode == 0, done.stderr
        return done


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """Run a server during the block; the test is skipped if PostgreSQL is not installed."""
    installed = sorted(Path("/usr/lib/postgresql").glob("[0-9]*/bin/initdb"))
    if not installed:
        pytest.skip("needs PostgreSQL; install postgresql")
    # pytest's folders are closed to other users, and the server runs as one of them.
    with tempfile.TemporaryDirectory(prefix="bidaflow-postgresql-") as folder:
        server = PostgreSQL(installed[-1].parent, Path(folder))
        try:
            yield server
        finally:
            server.stop()
