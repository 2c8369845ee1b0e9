"""Roots of other releases are refused, new ones get the format of this one."""

import json
import os
from pathlib import Path

import pytest

from flows.__main__ import requires_root
from infra.errors import UserError
from infra.services.checks import run_checks
from infra.settings import settings
from infra.storage.root_format import CONTENTS, FILE, FORMAT, read_format, require_format
from tests.factories.cli import bidaflow, tests_server
from tests.factories.object_store import ObjectStore

IS_OF_OTHER_RELEASE = "is of another release: it has {}, this one reads format 1.0"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root that does not exist yet."""
    monkeypatch.setenv("BIDAFLOW_ROOT", str(tmp_path / "missing"))
    return tmp_path / "missing"


MISREAD = {"a%2Fb": "'%2F'", "a?b": "'?'", os.fsdecode(b"a\xffb"): r"'\udcff'"}
"""Names of folders, and what MLflow would misread in each."""


def used_root(root: Path, content: str | None = None, contents: str = "stages") -> None:
    (root / contents).mkdir(parents=True)
    if content is not None:
        (root / FILE).write_text(content)


@pytest.mark.parametrize("existing", [None, "nothing", "own.txt"])
def test_new_root_gets_the_format(root: Path, existing: str | None) -> None:
    """Also a folder that has files of the user's."""
    if existing:
        root.mkdir()
        (root / existing).touch()
    assert read_format() is None and not (root / FILE).exists()
    require_format()
    assert json.loads((root / FILE).read_bytes()) == {"format": FORMAT}
    used_root(root)
    require_format()
    assert read_format() == FORMAT


@pytest.mark.parametrize("contents", CONTENTS)
def test_root_without_a_format_is_refused(root: Path, contents: str) -> None:
    used_root(root, contents=contents)
    with pytest.raises(UserError, match=IS_OF_OTHER_RELEASE.format("no format")):
        require_format()
    assert [path.name for path in root.iterdir()] == [contents]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('{"format": "2.0"}', "format 2.0"),
        ('{"format": 1}', "format 1"),
        ("not JSON", "no format"),
        ("[]", "no format"),
        ("{}", "no format"),
    ],
)
def test_root_with_another_format_is_refused(root: Path, content: str, found: str) -> None:
    used_root(root, content)
    with pytest.raises(UserError, match=IS_OF_OTHER_RELEASE.format(found)):
        require_format()
    assert (root / FILE).read_text() == content


def test_message_says_how_to_start_anew(root: Path) -> None:
    used_root(root)
    start = "To start anew, set BIDAFLOW_ROOT to a new folder, or move the old one away."
    with pytest.raises(UserError) as without_runs:
        require_format()
    assert str(without_runs.value).endswith(start)
    (root / "mlflow.db").touch()
    with pytest.raises(UserError) as with_runs:
        require_format()
    command = f"mlflow server --backend-store-uri sqlite:///{root}/mlflow.db"
    assert str(with_runs.value).endswith(f"{start} Its MLflow runs stay readable: {command}")


def test_root_at_an_address_has_a_format(store: ObjectStore) -> None:
    require_format()
    assert json.loads(store.read(f"{store.root}/{FILE}")) == {"format": FORMAT}
    before = len(store.requests)
    require_format()
    assert len(store.requests) == before, "it is read once a process"
    store.write(f"{store.root}/stages/write/key/manifest.json", b"{}")
    assert read_format() == FORMAT


def test_address_without_a_format_is_refused(store: ObjectStore) -> None:
    store.write(f"{store.root}/stages/write/key/manifest.json", b"{}")
    with pytest.raises(UserError, match="set BIDAFLOW_ROOT to a new address") as caught:
        require_format()
    assert f"The storage root {settings().address} is of another release" in str(caught.value)
    assert store.names(store.root) == [f"{store.root}/stages/write/key/manifest.json"]


@pytest.mark.parametrize("name", MISREAD)
def test_path_that_mlflow_misreads_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also that of a root which is a link, and of a database elsewhere."""
    (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / name)
    monkeypatch.setenv("BIDAFLOW_ROOT", str(tmp_path / "link"))
    for variable in ("BIDAFLOW_ROOT", "BIDAFLOW_MLFLOW_TRACKING_URI"):
        with pytest.raises(UserError) as caught:
            require_format()
        assert f"contains {MISREAD[name]}, which" in str(caught.value)
        assert f"set {variable} to another" in str(caught.value)
        problem, to_do = found_by_doctor()
        assert "MLflow would misread" in problem and to_do
        monkeypatch.setenv("BIDAFLOW_ROOT", str(tmp_path / "root"))
        uri = f"sqlite:///{tmp_path}/{name}/runs.db"
        monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", uri)
    assert list((tmp_path / name).iterdir()) == []


def found_by_doctor() -> tuple[str, str | None]:
    check = next(check for check in run_checks() if check.name == "storage root")
    return check.found, check.to_do


def test_doctor_reports_the_format(root: Path) -> None:
    assert found_by_doctor() == (f"{root}, new", None)
    require_format()
    assert found_by_doctor() == (f"{root}, format 1.0", None)
    (root / FILE).write_text('{"format": "2.0"}')
    problem, to_do = found_by_doctor()
    assert problem.endswith("it has format 2.0, this one reads format 1.0")
    assert to_do is not None and to_do.startswith("To start anew")


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        *(
            (words, True)
            for words in ("retrain", "embeddings train x", "ask x", "prune --yes", "up")
        ),
        *((words, False) for words in ("", "doctor", "down", "variants", "retrain --help")),
    ],
)
def test_commands_that_use_results_check_the_root(words: str, needed: bool) -> None:
    assert requires_root(words.split()) == needed


@pytest.mark.heavy
def test_command_is_refused_at_once(prefect_server: None, tmp_path: Path) -> None:
    used_root(tmp_path / "old")
    done = bidaflow(tmp_path / "old", "ingest", "--data.dataset", "tiny", **tests_server())
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("\nThe storage root") and "another release" in done.stderr
    assert list((tmp_path / "old" / "stages").iterdir()) == []
    assert bidaflow(tmp_path / "old", "down").stdout == "Nothing is running.\n"


@pytest.mark.usefixtures("prefect_server")
def test_run_of_a_worker_is_refused(root: Path) -> None:
    from flows.common.parameters import DataParameters
    from flows.ingest import ingest

    used_root(root)
    state = ingest(data=DataParameters(dataset="tiny"), return_state=True)
    assert state.is_failed() and str(state.message).startswith("Refused: The storage root")
    assert list((root / "stages").iterdir()) == []
