"""The Kubernetes manifests: valid, restricted, consistent, and closed but for named connections."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from prefect_kubernetes.settings import KubernetesSettings

from infra.environment import variables
from infra.kubernetes.render import MANIFESTS, render
from infra.services.create_secrets import new_secrets
from infra.settings import CHECKOUT
from tests.factories.container_commands import require_valid
from tests.factories.manifests import (
    Manifest,
    job_of_flow,
    named,
    pod_specs,
    read_manifests,
    strict_validator,
)

PORTS = {"postgresql": 5432, "prefect": 4200, "mlflow": 5000, "ray-head": 8265, "serve": 8000}
NEEDED = {
    *(("prefect", "postgresql", 5432), ("mlflow", "postgresql", 5432)),
    *((client, "prefect", 4200) for client in ("prefect-worker", "flow", "ray-head")),
    *((client, "mlflow", 5000) for client in ("flow", "ray-head", "ray-worker", "serve")),
    ("submitter", "ray-head", 8265),
}
"""The connections between pods, apart from those of Ray's nodes."""
NODES = {"ray-head", "ray-worker", "flow"}
"""Pods with a node of Ray, which talk to each other on ports that it chooses."""


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> list[Manifest]:
    """All rendered manifests, and the job of a run of `retrain`."""
    folder = tmp_path_factory.mktemp("manifests")
    render(MANIFESTS.with_name("values.yaml"), folder)
    documents = read_manifests(folder)
    deployments = yaml.safe_load((CHECKOUT / "prefect.yaml").read_text())["deployments"]
    (retrain,) = (d for d in deployments if d["name"] == "retrain")
    return [*documents, job_of_flow(documents, retrain["work_pool"]["job_variables"])]


@pytest.fixture(scope="module")
def pods(manifests: list[Manifest]) -> dict[str, Manifest]:
    """The template of each kind of pod; those of both groups of Ray's workers are one kind."""
    return dict(pod_specs(manifests))


def containers(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    for name, template in pod_specs(manifests):
        spec = template["spec"]
        for container in (*spec.get("initContainers", []), *spec["containers"]):
            yield name, container


def test_manifests_follow_their_schemas(manifests: list[Manifest], shared_data: Path) -> None:
    version = kubernetes_validate.latest_version()
    kinds = set()
    for manifest in manifests:
        kinds.add(manifest["kind"])
        if manifest["apiVersion"] == "ray.io/v1":
            crd = shared_data / "kuberay" / f"ray.io_{manifest['kind'].lower()}s.yaml"
            strict_validator(crd).validate(manifest)
        else:
            kubernetes_validate.validate(manifest, version, strict=True)
    assert {"Deployment", "Job", "NetworkPolicy", "RayCluster", "RayJob", "StatefulSet"} <= kinds


def test_containers_are_restricted(manifests: list[Manifest]) -> None:
    for name, template in pod_specs(manifests):
        pod = template["spec"]["securityContext"]
        assert pod["runAsNonRoot"] and pod["seccompProfile"] == {"type": "RuntimeDefault"}, name
    for name, container in containers(manifests):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        resources = container["resources"]
        assert {"cpu", "memory"} <= resources["requests"].keys() & resources["limits"].keys(), name
        assert re.search(r":[\w.-]*\d[\w.-]*$", container["image"]), name


def test_api_tokens_are_mounted_where_they_are_used(pods: dict[str, Manifest]) -> None:
    with_token = {
        name
        for name, template in pods.items()
        if template["spec"].get("automountServiceAccountToken", True)
    }
    assert with_token == {"prefect-worker", "ray-head"}, "which create jobs and Ray's workers"


def test_secrets_are_references_to_existing_keys(manifests: list[Manifest]) -> None:
    assert "Secret" not in {manifest["kind"] for manifest in manifests}
    used = set(
        re.findall(r'"key": "(\w+)", "name": "bidaflow"', json.dumps(manifests, sort_keys=True))
    )
    others = {"mlflow_users.ini", "auth_token", "s3_users.json", "serve_token"}
    assert used | others == new_secrets().keys()
    for name, container in containers(manifests):
        for variable in container.get("env", []):
            secret = re.search(
                "PASSWORD|SECRET_ACCESS|KEY_ID|AUTH_STRING$|TOKEN$", variable["name"]
            )
            assert not secret or "valueFrom" in variable, f"{name}: {variable['name']}"


def test_jobs_of_flows_refer_to_the_login(
    pods: dict[str, Manifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    (worker,) = pods["prefect-worker"]["spec"]["containers"]
    for variable in worker["env"]:
        monkeypatch.setenv(variable["name"], variable.get("value", ""))
    settings = KubernetesSettings()
    reference = (
        settings.worker.api_auth_string_secret_name,
        settings.worker.api_auth_string_secret_key,
    )
    assert reference == ("bidaflow", "prefect_login")
    assert settings.observer.namespaces == {"bidaflow"}


def test_job_variables_of_deployments_are_used(manifests: list[Manifest]) -> None:
    (container,) = (c for name, c in containers(manifests) if name == "flow")
    assert container["resources"]["requests"] == {"cpu": "1", "memory": "4Gi"}
    assert {"name": "PREFECT_FLOWS_DEFAULT_RETRIES", "value": "2"} in container["env"]


def test_what_is_written_goes_to_volumes(manifests: list[Manifest]) -> None:
    """The rest of a container's file system is read-only."""
    ours = [(name, c) for name, c in containers(manifests) if "bidaflow" in c["image"]]
    for name, container in ours:
        places = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert "/tmp" in places, name
        writes = name in ("flow", "ray-head", "ray-worker", "prefect", "prefect-worker", "serve")
        assert writes == ("/var/lib/bidaflow" in places), name
    roots = [v["value"] for _, c in ours for v in c.get("env", []) if v["name"] == "BIDAFLOW_ROOT"]
    assert set(roots) == {"/var/lib/bidaflow"}


def test_leases_of_prefect_outlive_its_pod(pods: dict[str, Manifest]) -> None:
    spec = pods["prefect"]["spec"]
    (container,) = spec["containers"]
    values = {variable["name"]: variable.get("value") for variable in container["env"]}
    leases = "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE"
    assert values[leases] == variables()[leases]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    (volume,) = (v for v in spec["volumes"] if v["name"] == mounts[values["PREFECT_HOME"]])
    assert "persistentVolumeClaim" in volume


def test_pages_of_prefect_are_copied_to_a_volume(pods: dict[str, Manifest]) -> None:
    """By default, the server copies them into its package, which is read-only."""
    (container,) = pods["prefect"]["spec"]["containers"]
    values = {variable["name"]: variable.get("value") for variable in container["env"]}
    folder = Path(values["PREFECT_UI_STATIC_DIRECTORY"])
    assert str(folder.parent) in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_every_pod_of_ours_can_pull_its_image(pods: dict[str, Manifest]) -> None:
    for name, template in pods.items():
        if name != "postgresql":
            assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}], name


def test_versions_match_the_image(manifests: list[Manifest]) -> None:
    pins = (CHECKOUT / "constraints.txt").read_text().splitlines()
    cluster = named(manifests, "RayCluster", "ray")
    assert f"ray=={cluster['spec']['rayVersion']}" in pins
    compose = yaml.safe_load((CHECKOUT / "infra" / "compose.yaml").read_text())["services"]
    statefulset = named(manifests, "StatefulSet", "postgresql")["spec"]["template"]["spec"]
    assert statefulset["containers"][0]["image"] == compose["postgresql"]["image"]


def test_names_lead_to_services(manifests: list[Manifest], pods: dict[str, Manifest]) -> None:
    services = {m["metadata"]["name"]: m["spec"] for m in manifests if m["kind"] == "Service"}
    for name, service in services.items():
        (port,) = pods[name]["spec"]["containers"][0]["ports"]
        assert service["selector"] == {"app": name}
        assert service["ports"] == [{"port": port["containerPort"]}] == [{"port": PORTS[name]}]
    cluster = named(manifests, "RayCluster", "ray")["metadata"]["name"]
    known = {*services, f"{cluster}-head-svc"}
    hosts = re.findall(r"(?:https?://|=|\")([a-z][a-z-]*):\d{4}", json.dumps(manifests))
    assert set(hosts) - {"localhost"} == known - {"postgresql", "serve"}
    backends = re.findall(
        r'"service": {"name": "([\w-]+)", "port": {"number": (\d+)', json.dumps(manifests)
    )
    assert {(name.replace("-svc", ""), int(port)) for name, port in backends} == {
        (name, port) for name, port in PORTS.items() if name != "postgresql"
    }


def test_ingress_has_a_certificate_for_every_host(manifests: list[Manifest]) -> None:
    ingress = named(manifests, "Ingress", "bidaflow")["spec"]
    (certificate,) = ingress["tls"]
    assert certificate["hosts"] == [rule["host"] for rule in ingress["rules"]]


@pytest.mark.heavy
def test_every_command_is_valid(manifests: list[Manifest]) -> None:
    commands = [
        [*container.get("command", []), *container["args"]]
        for _, container in containers(manifests)
        if "args" in container
    ]
    commands += [m["spec"]["entrypoint"].split() for m in manifests if m["kind"] == "RayJob"]
    probes = re.findall(r'"exec": ({[^}]*})', json.dumps(manifests))
    commands += [json.loads(probe)["command"] for probe in probes if "pg_isready" not in probe]
    cluster = named(manifests, "RayCluster", "ray")["spec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        options = [f"--{name}={value}" for name, value in group["rayStartParams"].items()]
        commands.append(["ray", "start", *options])  # as KubeRay starts it
    programs = [require_valid(command) for command in commands]
    assert set(programs) == {"bidaflow", "mlflow", "prefect", "python", "ray"}
    assert len(programs) == 11


class Network:
    """What the network policies allow."""

    def __init__(self, manifests: list[Manifest], pods: dict[str, Manifest]) -> None:
        self.policies = [m["spec"] for m in manifests if m["kind"] == "NetworkPolicy"]
        self.labels = {name: template["metadata"]["labels"] for name, template in pods.items()}

    def allows(self, client: str, server: str, port: int) -> bool:
        """Whether a kind of pod may connect to another one: both sides must allow it."""
        return self._side("egress", "to", client, server, port) and self._side(
            "ingress", "from", server, client, port
        )

    def _side(self, direction: str, peers: str, pod: str, other: str, port: int) -> bool:
        return any(
            any(
                "podSelector" in p
                and "namespaceSelector" not in p
                and self.selects(p["podSelector"], other)
                for p in rule[peers]
            )
            for rule in self._rules(direction, pod, port)
        )

    def _rules(self, direction: str, pod: str, port: int) -> Iterator[Manifest]:
        selecting = [p for p in self.policies if self.selects(p["podSelector"], pod)]
        assert any(direction.capitalize() in policy["policyTypes"] for policy in selecting)
        for policy in selecting:
            for rule in policy.get(direction, []):
                if "ports" not in rule or port in [entry["port"] for entry in rule["ports"]]:
                    yield rule

    def outside(self, direction: str, peers: str, pod: str, port: int) -> set[str]:
        """Namespaces and networks outside that a pod may connect to, or that may connect to it."""
        found = [peer for rule in self._rules(direction, pod, port) for peer in rule[peers]]
        spaces = [p["namespaceSelector"]["matchLabels"] for p in found if "namespaceSelector" in p]
        names = {space["kubernetes.io/metadata.name"] for space in spaces}
        return names | {peer["ipBlock"]["cidr"] for peer in found if "ipBlock" in peer}

    def selects(self, selector: Manifest, pod: str) -> bool:
        labels = self.labels[pod]
        matches = [
            labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()
        ]
        for expression in selector.get("matchExpressions", []):
            isin = labels.get(expression["key"]) in expression["values"]
            matches.append(isin == (expression["operator"] == "In"))
        return all(matches)


def test_pods_have_the_connections_they_need_only(
    manifests: list[Manifest], pods: dict[str, Manifest]
) -> None:
    network = Network(manifests, pods)
    ports = {*PORTS.values(), 443, 6379, 8080, 10001}
    allowed = {
        (client, server, port)
        for client in pods
        for server in pods
        for port in ports
        if network.allows(client, server, port)
    }
    nodes = {(one, other, port) for one in NODES for other in NODES for port in ports}
    assert allowed == NEEDED | nodes
    assert len(pods) == 9


def test_connections_from_and_to_outside(
    manifests: list[Manifest], pods: dict[str, Manifest]
) -> None:
    network = Network(manifests, pods)

    def pods_with(direction: str, peers: str, port: int, place: str) -> set[str]:
        return {pod for pod in pods if place in network.outside(direction, peers, pod, port)}

    for name in ("prefect", "mlflow", "ray-head", "serve"):
        assert pods_with("ingress", "from", PORTS[name], "ingress-nginx") == {name}
    assert pods_with("ingress", "from", 8265, "kuberay-operator") == {"ray-head"}
    assert pods_with("ingress", "from", 8000, "monitoring") == {"serve"}
    assert pods_with("ingress", "from", 6379, "ingress-nginx") == set()
    assert pods_with("egress", "to", 443, "0.0.0.0/0") == {*NODES, "mlflow", "prefect", "serve"}, (
        "the store, and notifications"
    )
    assert pods_with("egress", "to", 6443, "10.0.0.0/8") == {"prefect-worker", "ray-head"}
    assert pods_with("egress", "to", 53, "kube-system") == pods.keys()
    assert pods_with("egress", "to", 80, "0.0.0.0/0") == set()


def test_budgets_select_existing_pods(manifests: list[Manifest], pods: dict[str, Manifest]) -> None:
    network = Network(manifests, pods)
    selected = {
        m["metadata"]["name"]: {p for p in pods if network.selects(m["spec"]["selector"], p)}
        for m in manifests
        if m["kind"] == "PodDisruptionBudget"
    }
    assert selected == {
        "ray-head": {"ray-head"},
        "postgresql": {"postgresql"},
        "servers": {"prefect", "mlflow", "prefect-worker"},
    }
