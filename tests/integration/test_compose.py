"""The compose file: valid, closed to other machines, without secrets, with existing commands."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.environment import variables as environment_of_bidaflow
from infra.services.create_secrets import new_secrets
from infra.settings import CHECKOUT
from tests.factories.container_commands import FOREIGN, require_valid
from tests.factories.dockerfile import read_stages

FILE = CHECKOUT / "infra" / "compose.yaml"
COMPOSE = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
ONE_SHOT = {"bucket", "deploy", "mlflow-database"}
"""Services that do one thing and end."""
LEASES = "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE"
SECRET = re.compile(r"PASSWORD|SECRET|KEY|TOKEN|AUTH_(?:STRING|CONFIG)|(?:STORE|CONNECTION)_UR[IL]")


def environment(service: str) -> dict[str, str]:
    return SERVICES[service].get("environment", {})


def validate(file: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [program, "--builtin-schema", "vendor.compose-spec", file]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_file_follows_the_compose_specification(tmp_path: Path) -> None:
    done = validate(FILE)
    assert done.returncode == 0, done.stdout
    assert validate(FILE.with_name("compose.gpu.yaml")).returncode == 0
    misspelt = tmp_path / "compose.yaml"
    misspelt.write_text(FILE.read_text().replace("healthcheck:", "healthchek:"))
    assert "healthchek" in validate(misspelt).stdout


def test_secrets_come_from_files() -> None:
    assert COMPOSE["secrets"] == {name: {"file": f"../secrets/{name}"} for name in new_secrets()}
    for name in SERVICES:
        mounted = {f"/run/secrets/{secret}" for secret in SERVICES[name].get("secrets", [])}
        variables = environment(name)
        secret = {key: value for key, value in variables.items() if SECRET.search(key)}
        assert {key for key in secret if not key.endswith(("_FILE", "_PATH"))} == set(), name
        used = {value for value in secret.values() if value.startswith("/run/")}
        used |= set(re.findall(r"/run/secrets/[\w.]+", json.dumps(SERVICES[name].get("command"))))
        assert used == mounted, name


def test_ports_are_open_to_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 5
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", SERVICES)
def test_containers_are_restricted(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.search(r":[\d.]+(-\w+)?$", service["image"]) or service["image"] == "bidaflow:cpu"
    assert ("healthcheck" in service) != (name in ONE_SHOT)


def test_services_wait_for_what_they_use() -> None:
    """Each host in a service's addresses is a service that it waits for, directly or not."""

    def before(name: str) -> set[str]:
        direct = set(SERVICES[name].get("depends_on", {}))
        return direct | {other for service in direct for other in before(service)}

    for name in SERVICES:
        values = [*environment(name).values(), *SERVICES[name].get("command", [])]
        hosts = set(re.findall(r"(?:https?://|=|^)([a-z][a-z-]*):\d", "\n".join(values), re.M))
        assert hosts - {name, "localhost"} <= before(name), name
    assert {"bucket", "deploy", "s3", "postgresql"} <= before("prefect-worker")


def test_what_bidaflow_writes_goes_to_volumes() -> None:
    """The rest of a container's file system is read-only."""
    for name in ("deploy", "prefect-worker"):
        root = environment(name)["BIDAFLOW_ROOT"]
        mounted = [volume.rpartition(":")[2] for volume in SERVICES[name]["volumes"]]
        assert "/var/lib/bidaflow" in mounted, "the cache, if the root is an address"
        assert root == "/var/lib/bidaflow" or root.startswith("s3://")


def test_leases_of_prefect_outlive_a_restart() -> None:
    variables = environment("prefect")
    assert variables[LEASES] == environment_of_bidaflow()[LEASES]
    assert f"prefect:{variables['PREFECT_HOME']}" in SERVICES["prefect"]["volumes"]


def test_pages_of_prefect_get_a_writable_folder() -> None:
    """By default, the server copies them into its package, which is read-only."""
    folder = Path(environment("prefect")["PREFECT_UI_STATIC_DIRECTORY"])
    assert str(folder.parent) in SERVICES["prefect"]["tmpfs"]


@pytest.mark.heavy
def test_every_command_is_valid() -> None:
    """Those of the containers, of their health checks, and of the image."""
    commands = [service["command"] for service in SERVICES.values() if "command" in service]
    commands = [command for command in commands if command[0] != "server"]  # of SeaweedFS
    checks = [
        service["healthcheck"]["test"] for service in SERVICES.values() if "healthcheck" in service
    ]
    assert {check[0] for check in checks} == {"CMD"}
    final = dict(read_stages(CHECKOUT / "infra" / "image" / "Dockerfile")[-1])
    commands += [[*json.loads(final["ENTRYPOINT"]), *json.loads(final["CMD"])]]
    commands += [check[1:] for check in checks if check[1] not in FOREIGN]
    programs = {require_valid(command) for command in commands}
    assert programs == {"bidaflow", "mlflow", "prefect", "python", "ray", "responds"}
