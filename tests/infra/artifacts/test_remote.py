"""Stages at an address: published once, fetched by other machines, verified, never mixed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from prefect import flow

from infra.artifacts.manifest import (
    MANIFEST,
    content_digest,
    parse_manifest,
    stages_folder,
    write_manifest,
)
from infra.artifacts.remote import fetch, find_manifests, publish, published
from infra.artifacts.stage import Stage
from infra.atomic_files import new_folder
from infra.errors import UserError
from infra.settings import settings as current_settings
from infra.storage.root_format import FILE
from infra.storage.store import require_store
from tests.factories.object_store import ObjectStore

T = TypeVar("T")

FILES = {"words.txt": b"one two", "below/empty": b"", "below/same": b"one two"}
KEY = "0123456789abcdef"


def final_folder(key: str = KEY) -> Path:
    return stages_folder() / "write" / key


def build(files: dict[str, bytes], key: str = KEY, seconds: float = 1) -> Path:
    """Build a stage with these files, and publish it."""
    final = final_folder(key)
    with new_folder(final) as folder:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        write_manifest(folder, {"stage": "write", "seconds": seconds, "facts": {}})
        publish(folder, final)
    return final


def content(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def below_root(store: ObjectStore) -> list[str]:
    """The names of all objects of the root but its format."""
    names = [name.removeprefix(f"{store.root}/") for name in store.names(store.root)]
    return [name for name in names if name != FILE]


def test_other_machine_fetches_the_same_files(
    store: ObjectStore, other_machine: Callable[[], None]
) -> None:
    built = build(FILES)
    assert content(built).keys() == FILES.keys() | {MANIFEST}
    other_machine()
    fetched = final_folder()
    assert published(fetched) and not fetched.exists()
    assert fetch(fetched)
    assert fetched != built
    assert content(fetched) == content(built)
    assert content_digest(fetched) == content_digest(built)
    assert list(fetched.parent.iterdir()) == [fetched]


def test_manifest_is_written_last(store: ObjectStore) -> None:
    build(FILES)
    written = [request for request in store.requests if request.startswith("PUT")]
    places = list(dict.fromkeys(written))
    assert places[-1].endswith(f"/write/{KEY}/{MANIFEST}")
    assert len(places) == 3, "files with equal content are published once"
    store.write(f"{store.root}/stages/write/{KEY}/below/{MANIFEST}", b"{}")
    assert list(find_manifests()) == [final_folder()]


def test_second_builder_takes_the_published_files(
    store: ObjectStore, other_machine: Callable[[], None]
) -> None:
    first = build({"time.txt": b"3 s"}, seconds=3)
    names = below_root(store)
    other_machine()
    second = build({"time.txt": b"4 s", "extra.txt": b""}, seconds=4)
    assert content(second) == content(first)
    assert below_root(store) == names


@pytest.mark.parametrize("lost", [MANIFEST, "file"])
def test_incomplete_stage_is_published_again(
    store: ObjectStore, other_machine: Callable[[], None], lost: str
) -> None:
    built = build(FILES)
    manifest = json.loads((built / MANIFEST).read_bytes())
    digest = manifest["files"]["words.txt"]["sha256"]
    root = str(current_settings().address).removeprefix("s3://")
    store.files.delete_file(f"{root}/stages/write/{KEY}/{digest if lost == 'file' else lost}")
    other_machine()
    assert not published(final_folder())
    assert not fetch(final_folder())
    again = build(FILES)
    assert published(again)


def test_damaged_file_is_named_with_its_address(
    store: ObjectStore, other_machine: Callable[[], None]
) -> None:
    built = build(FILES)
    digest = json.loads((built / MANIFEST).read_bytes())["files"]["words.txt"]["sha256"]
    store.write(f"{store.root}/stages/write/{KEY}/{digest}", b"two one")
    other_machine()
    with pytest.raises(
        UserError, match=r"damaged: s3://results/.*/write/0123.* Remove that"
    ) as error:
        fetch(final_folder())
    assert str(error.value).startswith(("words.txt is", "below/same is"))
    assert not list(final_folder().parent.iterdir())


def shout(out: Path, text: str) -> dict[str, Any]:
    (out / "text.txt").write_text(text.upper(), encoding="utf-8")
    return {"characters": len(text)}


shouting = Stage(shout, "shout", "infra.errors")


def in_flow(work: Callable[[], T]) -> T:
    return flow(work, name="stages")()


@pytest.mark.usefixtures("prefect_server")
def test_stage_is_built_on_one_machine_only(
    store: ObjectStore, other_machine: Callable[[], None]
) -> None:
    here = in_flow(lambda: shouting("hello"))
    other_machine()
    assert in_flow(lambda: shouting.is_built("hello"))
    there = in_flow(lambda: shouting("hello"))
    assert (here.cached, there.cached) == (False, True)
    assert there.folder != here.folder
    assert (there.folder.name, there.facts) == (here.folder.name, here.facts)
    shutil.rmtree(there.folder)
    assert in_flow(lambda: shouting("hello")).cached


@pytest.mark.usefixtures("prefect_server")
def test_key_and_digest_are_those_of_a_local_root(
    store: ObjectStore, root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    local = in_flow(lambda: shouting("hello")).folder
    monkeypatch.setenv("BIDAFLOW_ROOT", f"s3://results/{tmp_path.name}")
    remote = in_flow(lambda: shouting("hello")).folder
    assert local.is_relative_to(root) and not remote.is_relative_to(root)
    assert remote.name == local.name
    assert content_digest(remote) == content_digest(local)


def test_local_root_sends_no_request(object_store_server: ObjectStore, root: Path) -> None:
    object_store_server.requests.clear()
    build(FILES)
    require_store()
    assert not fetch(final_folder("another"))
    assert object_store_server.requests == []


# Errors of the store


def test_missing_bucket_is_refused(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_ROOT", "s3://missing/folder")
    for action in (require_store, lambda: build(FILES)):
        with pytest.raises(
            UserError, match="s3://missing/folder is in a bucket that does not exist"
        ):
            action()


@pytest.mark.parametrize("address", ["nowhere://bucket", "s3://", "s3://bucket?x=y"])
def test_unusable_address_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_ROOT", address)
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", "http://mlflow:5000")
    with pytest.raises(UserError, match=r"is not a usable address: .* Expected a folder, or"):
        require_store()


def test_outage_is_waited_for(store: ObjectStore) -> None:
    store.fail_next(6)
    assert published(build(FILES))
    assert any(store.requests.count(request) > 3 for request in store.requests)


@pytest.mark.parametrize(
    ("name", "entry", "problem"),
    [
        ("../../../x", {}, r".* named '\.\./\.\./\.\./x', .* outside"),
        ("/tmp/x", {}, r".* named '/tmp/x', .* outside"),
        ("a\\..\\x", {}, r".* named 'a.*x', .* outside"),
        ("x", {"sha256": "../../x"}, r"can't be used: files\.x\.sha256 .*'\.\./\.\./x'"),
        ("x", {"sha256": None}, r"can't be used: files\.x\.sha256 "),
        ("x", {"bytes": -1}, r"can't be used: files\.x\.bytes .*-1"),
        ("x", {"bytes": "7"}, r"can't be used: files\.x\.bytes .*'7'"),
        ("x", None, r"can't be used: files "),
    ],
)
def test_manifest_that_leads_out_of_a_stage_is_refused(
    store: ObjectStore,
    other_machine: Callable[[], None],
    name: str,
    entry: dict[str, Any] | None,
    problem: str,
) -> None:
    """Whoever may write data there could run code on the machines that fetch it."""
    build(FILES)
    folder = f"{store.root}/stages/write/{KEY}"
    manifest = json.loads(store.read(f"{folder}/{MANIFEST}"))
    good = manifest["files"]["words.txt"]
    manifest["files"] = {name: good | entry} if entry is not None else [name]
    store.write(f"{folder}/{MANIFEST}", json.dumps(manifest).encode())
    other_machine()
    for use in (lambda: fetch(final_folder()), find_manifests):
        with pytest.raises(UserError, match=f"{folder}/{MANIFEST} {problem}"):
            use()
    assert not [path for path in current_settings().cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize("text", [b"not JSON", b"[]", b"{}", b"\xff", b'{"files": {"x": 1}}'])
def test_damaged_manifest_is_refused(text: bytes) -> None:
    with pytest.raises(UserError, match=r"s3://a/manifest.json can't be used: .*Nothing was"):
        parse_manifest(text, "s3://a/manifest.json")


@pytest.mark.parametrize(
    "key", ["stages/../reports/manifest.json", "stages/write/../manifest.json"]
)
def test_stage_with_an_unsafe_key_is_refused(store: ObjectStore, key: str) -> None:
    """`bidaflow prune` would remove the folder that the key leads to."""
    store.put(f"{store.root}/{key}", b"{}")
    with pytest.raises(UserError, match=r"/stages has a file or folder named '.*\.\./"):
        find_manifests()
