"""A training in a process of its own, on this machine or on a cluster, and what it leaves."""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from infra.artifacts.manifest import MANIFEST, Manifest, read_manifest
from infra.settings import CHECKOUT
from tests.factories.cli import BIDAFLOW, SMALL_VECTORS, environment_for, kill
from tests.factories.object_store import ObjectStore

TRAINING = {"hidden_size": 8, "batch_size": 4, "epochs": 3}
RESOURCES = {"workers": 2, "cpus_per_worker": 1}
DETERMINISTIC = ("ingest", "split", "select-vectors", "build-vocabulary", "encode")
"""Stages whose files are the same in every run; a training's have times in them."""
WEIGHTS = "model/weights.safetensors"


def flags() -> list[str]:
    """The command line's options of a training of `char`."""
    options = [
        word
        for group, values in (("training", TRAINING), ("resources", RESOURCES))
        for name, value in values.items()
        for word in (f"--{group}.{name.replace('_', '-')}", str(value))
    ]
    return ["--variants", "char", "--vectors.source", SMALL_VECTORS, *options]


@dataclass
class Run:
    """A command in a process of its own, with its own root or cache."""

    command: str
    data: Path
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> "Run":
        place = {"BIDAFLOW_ROOT": str(self.folder), "BIDAFLOW_CACHE": str(self.folder)}
        place["BIDAFLOW_CHECKPOINT_MINUTES"] = "0.001"
        self.process = subprocess.Popen(
            [BIDAFLOW, self.command, "--data.dataset", str(self.data), *flags()],
            env=environment_for(Path(), **place | self.variables) | {"OMP_NUM_THREADS": "1"},
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.output = ""
        return self

    def read_until(self, text: str) -> None:
        """Read the output up to a line with a text, or to the end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            if text in line:
                return

    def finish(self) -> "Run":
        """Wait until the command ends; it must succeed."""
        assert self.process.stdout is not None
        self.output += self.process.stdout.read()
        assert self.process.wait() == 0, self.output
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            process = psutil.Process(self.process.pid)
            kill([process, *process.children(recursive=True)])
        self.process.wait()

    def digests(self) -> dict[str, str]:
        """The digests of what is the same in every run, by stage and key."""
        folders = [file.parent for file in self.folder.rglob(f"stages/*/[!.]*/{MANIFEST}")]
        return comparable({f"{f.parent.name}/{f.name}": read_manifest(f) for f in folders})


def stored_digests(store: ObjectStore, folder: str) -> dict[str, str]:
    """The same digests of the stages in a folder of a store."""
    names = [name for name in store.names(f"{folder}/stages") if name.endswith(MANIFEST)]
    read = {"/".join(name.split("/")[-3:-1]): json.loads(store.read(name)) for name in names}
    return comparable(read)


def comparable(manifests: dict[str, Manifest]) -> dict[str, str]:
    """The digests of deterministic stages and of trained weights, by stage and key."""

    def digest(stage: str, manifest: dict[str, Any]) -> str | None:
        if stage == "train":
            return str(manifest["files"][WEIGHTS]["sha256"])
        return manifest["digest"] if stage in DETERMINISTIC else None

    found = {name: digest(name.partition("/")[0], m) for name, m in manifests.items()}
    return {name: value for name, value in found.items() if value is not None}
