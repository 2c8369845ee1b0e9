"""The services of infra/compose.yaml as processes of this machine, with their logins.

Commands and environments are those of the file, with its defaults. Only addresses, ports and the
folder of the secrets are replaced, and the S3 server: moto, which checks keys, too.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import boto3
import httpx
import yaml

from infra.services.create_secrets import create_secrets
from infra.settings import CHECKOUT
from tests.conftest import RUN_VARIABLE
from tests.factories.cli import kill
from tests.factories.dockerfile import read_stages
from tests.factories.ports import free_port
from tests.factories.postgresql import PASSWORD, PostgreSQL, postgresql
from tests.factories.services import processes_with

DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")
"""A variable of the compose file that may be unset, and its default."""
COMPOSE = yaml.safe_load(
    DEFAULT.sub(r"\1", (CHECKOUT / "infra" / "compose.yaml").read_text(encoding="utf-8"))
)
IMAGE = CHECKOUT / "infra" / "image"
START_SECONDS = 240
MARK = "BIDAFLOW_TEST_CLUSTER"
"""The variable of all processes of a cluster, even of those that leave their parent."""
SETUP_REQUESTS = 4
"""The requests without a login: one shows that moto is up, and three create a user."""


@dataclass
class ClusterServices:
    """Servers that were started, and where they are."""

    folder: Path
    database: PostgreSQL
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ports = {
            name: free_port() for name in ("prefect", "mlflow", "s3", "ray-head", "dashboard")
        }
        create_secrets(self.secrets)
        password = self.secret("postgresql_password")
        for file in self.secrets.iterdir():
            text = file.read_text(encoding="utf-8")
            server = f"{PASSWORD}@127.0.0.1:{self.database.port}"
            self.set_secret(file.name, text.replace(f"{password}@postgresql:5432", server))

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets"

    def secret(self, name: str) -> str:
        return (self.secrets / name).read_text(encoding="utf-8")

    def set_secret(self, name: str, value: str) -> None:
        (self.secrets / name).chmod(0o600)
        (self.secrets / name).write_text(value, encoding="utf-8")

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def environment(self, service: str) -> dict[str, str]:
        """The environment of a service in the compose file, without the secrets."""
        variables = COMPOSE["services"][service].get("environment", {})
        folders = {"/run/secrets": self.secrets, "/var/lib/bidaflow": self.folder}
        return {
            name: self._local(reduce(lambda v, f: v.replace(f, str(folders[f])), folders, value))
            for name, value in variables.items()
        }

    def with_secrets(self, service: str) -> dict[str, str]:
        """The environment of a service, with the content of its secrets."""
        return {
            name.removesuffix("_FILE"): Path(value).read_text() if name.endswith("_FILE") else value
            for name, value in self.environment(service).items()
        }

    def start(self, service: str, *options: str, **variables: str) -> None:
        """Start a service by its command in the compose file, plus options and variables."""
        command = [self._local(word) for word in COMPOSE["services"][service]["command"]]
        with_secrets = str(IMAGE / "with-secrets")
        self.run(service, [with_secrets, *command, *options], self.environment(service) | variables)

    def run(self, name: str, command: list[str], variables: dict[str, str]) -> None:
        """Run a command as in a container: with the image's environment and its own variables."""
        path = f"{Path(sys.executable).parent}:{IMAGE}:{os.environ['PATH']}"
        run = {RUN_VARIABLE: os.environ[RUN_VARIABLE], MARK: str(self.folder)}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                env={**self._image_environment(), **variables, **run, "PATH": path},
                cwd=CHECKOUT,
                stdout=log,
                stderr=log,
            )

    def _image_environment(self) -> dict[str, str]:
        """The image's variables, with this folder instead of the folders that it may write to."""
        (text,) = (text for name, text in read_stages(IMAGE / "Dockerfile")[-1] if name == "ENV")
        folders = re.sub(r"/tmp|/var/lib/bidaflow", str(self.folder), text)
        return dict(pair.split("=", 1) for pair in folders.split())

    def _local(self, text: str) -> str:
        """A word of the compose file with the addresses of this machine."""
        for name, port in {"prefect": 4200, "mlflow": 5000, "s3": 8333, "ray-head": 6379}.items():
            local = f"127.0.0.1:{self.ports[name]}"
            text = re.sub(rf"(?<![\w.-]){name}:{port}\b", local, text)
            text = re.sub(rf"^(--port=){port}$", rf"\g<1>{self.ports[name]}", text)
        return text.replace("0.0.0.0", "127.0.0.1")

    def wait(self, name: str, url: str) -> None:
        """Wait until a server answers a URL, whatever it answers."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                httpx.get(url, timeout=5)
                return
            except httpx.TransportError:
                failed = self.processes[name].poll() is not None or time.monotonic() > deadline
                assert not failed, self.log(name)[-3000:]
                time.sleep(0.2)

    def start_store(self) -> None:
        """Start moto, and create a bucket and a user whose keys become the secrets."""
        command = [sys.executable, "-m", "moto.server", "-p", str(self.ports["s3"])]
        self.run("s3", command, {"INITIAL_NO_AUTH_ACTION_COUNT": str(SETUP_REQUESTS)})
        self.wait("s3", self.url("s3"))
        anyone = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        place = {"endpoint_url": self.url("s3"), "region_name": "us-east-1"}
        iam = boto3.client("iam", **anyone, **place)
        iam.create_user(UserName="bidaflow")
        allowed = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        iam.put_user_policy(UserName="bidaflow", PolicyName="all", PolicyDocument=policy)
        key = iam.create_access_key(UserName="bidaflow")["AccessKey"]
        self.set_secret("s3_key", key["AccessKeyId"])
        self.set_secret("s3_secret", key["SecretAccessKey"])

    def stop(self) -> None:
        """Kill all servers, with the processes that they have started and left."""
        kill(processes_with(MARK, str(self.folder)))
        for process in self.processes.values():
            process.wait()


@contextmanager
def cluster_services(folder: Path) -> Iterator[ClusterServices]:
    """Run PostgreSQL, S3, Prefect, MLflow and the head of a Ray cluster during the block."""
    with ExitStack() as stack:
        services = ClusterServices(folder, stack.enter_context(postgresql()))
        stack.callback(services.stop)
        services.start("prefect")
        services.start(
            "ray-head",
            *("--node-ip-address=127.0.0.1", f"--temp-dir={folder}/ray"),
            f"--dashboard-port={services.ports['dashboard']}",
            f"--dashboard-agent-listen-port={free_port()}",
            f"--ray-client-server-port={free_port()}",
        )
        services.start_store()
        services.start("mlflow")
        services.start("bucket")
        services.wait("prefect", services.url("prefect"))
        services.wait("mlflow", services.url("mlflow"))
        services.wait("ray-head", services.url("dashboard"))
        assert services.processes["bucket"].wait() == 0, services.log("bucket")
        yield services
