"""The rendered Kubernetes manifests, their pods, and the schemas that they must follow."""

import asyncio
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from jsonschema import Draft202012Validator
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration

Manifest = dict[str, Any]


def read_manifests(folder: Path) -> list[Manifest]:
    """The documents of all files in a folder and its folders."""
    files = sorted(folder.rglob("*.yaml"))
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def named(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    """The manifest of a kind and name."""
    (found,) = (m for m in manifests if m["kind"] == kind and m["metadata"].get("name") == name)
    return found


def job_template(manifests: list[Manifest]) -> Manifest:
    """The base job template of the work pool."""
    template: Manifest = json.loads(
        named(manifests, "ConfigMap", "job-template")["data"]["job-template.json"]
    )
    return template


def job_of_flow(manifests: list[Manifest], variables: Manifest) -> Manifest:
    """The job that Prefect's worker creates for a run with these job variables."""
    values = {"name": "run", **variables}
    configuration = asyncio.run(
        KubernetesWorkerJobConfiguration.from_template_and_values(
            job_template(manifests),
            values,
            client=PrefectClient("http://127.0.0.1:1/api"),  # used for references to blocks only
        )
    )
    configuration.prepare_for_flow_run(FlowRun(flow_id=uuid4(), name="run"))
    manifest: Manifest = configuration.job_manifest
    for field in ("completions", "parallelism"):
        # Prefect insists on these fields of a job in its pod, where Kubernetes ignores them.
        del manifest["spec"]["template"]["spec"][field]
    return manifest


def pod_specs(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """The labels `app` and `role` as one name, and the pod, of each template of pods."""
    for manifest in manifests:
        spec = manifest.get("spec", {})
        if manifest["kind"] == "RayCluster":
            groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
            templates = [group["template"] for group in groups]
        elif manifest["kind"] == "RayJob":
            templates = [spec["submitterPodTemplate"]]
        else:
            templates = [spec["template"]] if "template" in spec else []
        for template in templates:
            labels = template["metadata"]["labels"]
            yield "-".join(labels[key] for key in ("app", "role") if key in labels), template


@cache
def strict_validator(crd: Path) -> Draft202012Validator:
    """A validator of version v1 of a custom resource, for which unknown fields are errors."""
    # The parser that is written in C reads the 2 MB in a second instead of ten.
    definition = yaml.load(crd.read_bytes(), Loader=yaml.CSafeLoader)
    versions = definition["spec"]["versions"]
    (schema,) = (v["schema"]["openAPIV3Schema"] for v in versions if v["name"] == "v1")
    _close(schema)
    return Draft202012Validator(schema)


def _close(schema: Any) -> None:
    if isinstance(schema, list):
        for part in schema:
            _close(part)
    elif isinstance(schema, dict):
        is_open = schema.get("x-kubernetes-preserve-unknown-fields", False)
        if isinstance(schema.get("properties"), dict) and "type" in schema and not is_open:
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            _close(part)
