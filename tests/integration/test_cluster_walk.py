"""The walk through docs/cluster.md: commands run as far as they can without containers.

Those of Python and the shell run, in order. Those of docker and kubectl are compared with the files
that they name.
"""

import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from infra.services.create_secrets import new_secrets
from infra.settings import CHECKOUT
from tests.factories.container_commands import FOREIGN, require_valid
from tests.factories.documents import CLUSTER_WALK, shell_lines
from tests.factories.manifests import read_manifests

COMPOSE_COMMANDS = {"up", "exec", "down"}
SERVICES = yaml.safe_load((CHECKOUT / "infra" / "compose.yaml").read_text())["services"]


def commands() -> list[list[str]]:
    """The words of each command of the page, apart from those about a store without a cluster."""
    text = (CHECKOUT / "docs" / "cluster.md").read_text(encoding="utf-8")
    walk = CLUSTER_WALK.search(text)
    assert walk is not None
    return [shlex.split(line, comments=True) for line in shell_lines(walk[0])]


COMMANDS = commands()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which the commands of Python and of the shell have run."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "infra").symlink_to(CHECKOUT / "infra")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for words in COMMANDS:
        if words[0] in ("python", "cp", "chmod"):
            command = shlex.join(words)
            subprocess.run(command, shell=True, cwd=folder, env=environment, check=True)
    return folder


def of(program: str) -> list[list[str]]:
    return [words[1:] for words in COMMANDS if words[0] == program]


def test_programs_are_known() -> None:
    programs = {words[0] for words in COMMANDS}
    shell = {"cp", "chmod", "printf", "export"}
    assert programs == {"python", "docker", "kubectl", "bidaflow", *shell}


def test_shell_commands_create_what_others_use(folder: Path) -> None:
    assert {file.name for file in (folder / "secrets").iterdir()} == new_secrets().keys()
    assert (folder / "rendered" / "ray.yaml").is_file()
    assert len(of("python")) == 3


def test_docker_commands_name_files_and_services(folder: Path) -> None:
    for words in of("docker"):
        if words[0] == "build":
            assert (folder / words[words.index("-f") + 1]).is_file()
            arguments = [word for word in words if word.startswith("DEVICE=")]
            assert arguments in ([], ["DEVICE=cu130"])
        elif words[0] == "compose":
            _, *rest = words
            while rest[0] == "-f":
                _, file, *rest = rest
                assert (folder / file).is_file()
            command, *rest = rest
            assert command in COMPOSE_COMMANDS
            if command == "exec":
                service, *inner = (word for word in rest if word != "-T")
                assert service in SERVICES
                if inner[0] not in FOREIGN:
                    require_valid(inner)
            for word in rest:
                if "=" in word:
                    assert word.partition("=")[0] in SERVICES
        else:
            assert words[0] == "push"


def test_kubectl_commands_name_files_and_objects(folder: Path) -> None:
    manifests = read_manifests(folder / "rendered")
    objects = {(m["kind"].lower(), m["metadata"].get("name")) for m in manifests}
    kinds = {kind for kind, _ in objects}
    created = set()
    for words in of("kubectl"):
        options = dict(pairwise(words))
        assert options.get("-n", "bidaflow") == "bidaflow" and ("namespace", "bidaflow") in objects
        if "-f" in options:
            assert (folder / options["-f"]).exists()
        for word in words:
            if word.startswith("--from-file="):
                assert list((folder / word.partition("=")[2]).iterdir())
            if word.startswith("deployment/"):
                assert tuple(word.split("/")) in objects
        if "get" in words:
            kind, *names = words[words.index("get") + 1 :]
            assert kind in kinds and all((kind, name) in objects for name in names)
        if "create" in words and "-f" not in options:
            kind = "configmap" if "configmap" in words else "secret"
            created.add(
                (kind, options.get("generic") or options.get("tls") or options["configmap"])
            )
    assert created == referenced(manifests) - objects


def referenced(manifests: list[dict[str, object]]) -> set[tuple[str, str]]:
    """The Secrets and ConfigMaps that manifests refer to."""
    text = yaml.safe_dump_all(manifests)
    secrets = set(re.findall(r"secretName: ([\w-]+)", text))
    secrets |= set(re.findall(r"secretKeyRef:\n +key: \S+\n +name: ([\w-]+)", text))
    maps = set(re.findall(r"configMap(?:Ref)?:\n +name: ([\w-]+)", text))
    return {("secret", name) for name in secrets} | {("configmap", name) for name in maps}
