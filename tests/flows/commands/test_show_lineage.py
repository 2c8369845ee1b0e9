"""Lineage from a run to its input files and back, over real stages and a real MLflow."""

import hashlib
import re
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from flows.commands.show_lineage import main
from infra.artifacts.manifest import content_digest
from tests.factories.stages import Trained, register, trained

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lineage")


@pytest.fixture(scope="module")
def files(place: Path) -> list[Path]:
    paths = [place / "a.txt", place / "b.txt"]
    paths[0].write_text("one two two three three three")
    paths[1].write_text("four four")
    return paths


@pytest.fixture(scope="module")
def made(place: Path, files: list[Path], prefect_server: None) -> Trained:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIDAFLOW_ROOT", str(place / "root"))
        made = trained(files, 2)
        register(made.run_id, "bidaf-words", "champion")
        return made


@pytest.fixture(autouse=True)
def in_root(made: Trained, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_ROOT", str(place / "root"))


def lineage(*flags: str) -> str:
    """What the command prints, or its error message if it exits with an error."""
    with redirect_stdout(StringIO()) as printed:
        try:
            main(list(flags))
        except SystemExit as refused:
            assert printed.getvalue() == ""
            return str(refused.code)
    return printed.getvalue()


def test_run_lineage_reaches_input_digests(made: Trained, files: list[Path]) -> None:
    told = lineage("--run", made.run_id, "--verify")
    assert re.search(r"char .* FINISHED .* bidaf-words/1 +bidaf-words@champion", told)
    for file in (*files, made.words / "words.parquet", made.counts / "counts.json"):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        (line,) = [line for line in told.splitlines() if digest in line]
        assert "intact" in line
        assert ("8 rows" in line) == (file.suffix == ".parquet")
    assert str(files[0]) in told
    assert told.index("train/") < told.index("read/") < told.index(str(files[0]))


def test_run_is_found_by_each_of_its_names(made: Trained) -> None:
    names = (made.run_id, made.parent, "char", "bidaf-words/1", "models:/bidaf-words/1", "champion")
    assert len({lineage("--run", name) for name in (*names, "bidaf-words@champion")}) == 1


def test_file_leads_to_its_runs_and_models(made: Trained, files: list[Path]) -> None:
    told = lineage("--file", str(files[1]))
    steps = ["read/", "count/", "train/", made.run_id, "bidaf-words/1"]
    assert sorted(steps, key=told.index) == steps
    digest = hashlib.sha256(files[1].read_bytes()).hexdigest()
    assert lineage("--file", digest[:8]).splitlines()[1:] == told.splitlines()[1:]
    assert made.run_id in lineage("--file", content_digest(made.counts))


def test_verify_reports_missing_and_changed_files(
    made: Trained, files: list[Path], tmp_path: Path, place: Path
) -> None:
    counts = made.counts / "counts.json"
    before = counts.read_bytes()
    (place / "kept").mkdir()
    files[0].rename(place / "kept" / "a.txt")
    try:
        counts.write_bytes(before[:-1] + b" ")
        told = lineage("--run", "champion", "--verify")
    finally:
        counts.write_bytes(before)
        (place / "kept" / "a.txt").rename(files[0])
    assert re.search(r"a\.txt +missing", told)
    assert re.search(r"counts\.json +changed", told)
    assert re.search(r"b\.txt +intact", told)


def test_unknown_runs_and_files_give_a_clear_error(made: Trained, files: list[Path]) -> None:
    assert lineage("--run", "nobody").startswith("MLflow has no run 'nobody': give")
    assert lineage("--file", "/nowhere/x.json").startswith("No stage was made of /nowhere/x.json")
    assert lineage("--file", "0123456789ab").startswith("No stage was made of 0123456789ab")


def test_pruned_stages_are_reported(made: Trained, tmp_path: Path) -> None:
    shutil.move(made.counts, tmp_path / "counts")
    assert re.search(r"count/\w+ +digest \w+ +pruned", lineage("--run", "champion"))
    shutil.move(made.model, tmp_path / "model")
    assert "pruned. Its inputs had these digests: train.digest abc" in lineage("--run", "champion")
    shutil.move(tmp_path / "counts", made.counts)
    shutil.move(tmp_path / "model", made.model)
