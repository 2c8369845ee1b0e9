"""Stages on the nodes of a cluster: fetched by key, and kept while they are used."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.artifacts.manifest import stages_folder, write_manifest
from infra.artifacts.node_cache import fetched, portable
from infra.artifacts.remote import publish
from infra.artifacts.shared_folder import remove_shared
from infra.settings import settings
from tests.factories.object_store import ObjectStore


@dataclass(frozen=True)
class Split:
    ingested: Path
    encoded: Path | None = None


@dataclass(frozen=True)
class Inputs:
    name: str
    train: Split
    start: Path


def stage(name: str, content: str) -> Path:
    """A complete stage, here and in the store."""
    folder = stages_folder() / name / "key"
    folder.mkdir(parents=True)
    (folder / "file").write_text(content, encoding="utf-8")
    write_manifest(folder, {})
    publish(folder, folder)
    return folder


def test_another_node_fetches_stages_by_key(
    store: ObjectStore, other_machine: Callable[[], None]
) -> None:
    inputs = Inputs("char", Split(stage("ingest", "text")), stage("model", "weights") / "file")
    sent = portable(inputs)
    other_machine()
    root = settings().root.resolve()
    found = fetched(sent)
    assert found == Inputs(
        "char",
        Split(root / "stages" / "ingest" / "key"),
        root / "stages" / "model" / "key" / "file",
    )
    assert (found.train.ingested / "file").read_text(encoding="utf-8") == "text"
    assert found.start.read_text(encoding="utf-8") == "weights"
    store.requests.clear()
    assert fetched(sent) == found
    assert store.requests == [], "the second process of a node finds them there"


def test_stages_removed_from_the_store_are_sent_again(
    store: ObjectStore, other_machine: Callable[[], None]
) -> None:
    inputs = Split(stage("ingest", "text"), stage("encode", "ids") / "file")
    remove_shared(inputs.ingested)
    remove_shared(stages_folder() / "encode" / "key")
    sent = portable(inputs)
    other_machine()
    found = fetched(sent)
    assert (found.ingested / "file").read_text(encoding="utf-8") == "text"
    assert found.encoded is not None and found.encoded.read_text(encoding="utf-8") == "ids"


def test_stages_in_use_stay_in_a_small_cache(
    store: ObjectStore, other_machine: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [portable(Split(stage(name, "much"))) for name in ("first", "second")]
    other_machine()
    monkeypatch.setenv("BIDAFLOW_CACHE_SIZE", "1")
    folders = [fetched(split).ingested for split in sent]
    assert [(folder / "file").exists() for folder in folders] == [True, True]


def test_paths_of_a_folder_as_root_stay_as_they_are(root: Path) -> None:
    inputs = Split(root / "stages" / "ingest" / "key", Path("/elsewhere"))
    assert portable(inputs) == inputs == fetched(inputs)
