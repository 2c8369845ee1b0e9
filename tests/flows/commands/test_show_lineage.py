"""Lineage from a run to its input files, over real stages and a real MLflow."""

import hashlib
import re
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from flows.commands import show_lineage
from infra.artifacts import manifest
from infra.errors import UserError
from tests.factories.stages import Trained, register, trained

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lineage")


@pytest.fixture(scope="module")
def files(folder: Path) -> list[Path]:
    paths = [folder / "a.txt", folder / "b.txt"]
    paths[0].write_text("one two two three three three")
    paths[1].write_text("four four")
    return paths


@pytest.fixture(scope="module")
def pipeline(folder: Path, files: list[Path], prefect_server: None) -> Trained:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIDAFLOW_ROOT", str(folder / "root"))
        pipeline = trained(files, 2)
        register(pipeline.run_id, "bidaf-words", "champion")
        return pipeline


@pytest.fixture(autouse=True)
def in_root(pipeline: Trained, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIDAFLOW_ROOT", str(folder / "root"))


def lineage(run: str) -> str:
    """What the command prints, or the message of its error."""
    with redirect_stdout(StringIO()) as printed:
        try:
            show_lineage.lineage(run)
        except UserError as error:
            assert printed.getvalue() == ""
            return str(error)
    return printed.getvalue()


def test_run_lineage_reaches_input_digests(pipeline: Trained, files: list[Path]) -> None:
    output = lineage(pipeline.run_id)
    assert re.search(r"char .* FINISHED .* bidaf-words/1 +bidaf-words@champion", output)
    for file in (*files, pipeline.words / "words.parquet", pipeline.counts / "counts.json"):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        (line,) = [line for line in output.splitlines() if digest in line]
        assert ("present" in line) == (file in files)
        assert ("8 rows" in line) == (file.suffix == ".parquet")
    assert str(files[0]) in output
    assert output.index("train/") < output.index("read/") < output.index(str(files[0]))


def test_lineage_works_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "CHECKOUT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("BIDAFLOW_ROOT", str(tmp_path / "root"))
    (tmp_path / "a.txt").write_text("one two two")
    run_id = trained([tmp_path / "a.txt"], 1).run_id
    steps = set(re.findall(r"(\w+)/\w+ .* git unknown", lineage(run_id)))
    assert steps == {"read", "count", "train"}


def test_run_is_found_by_each_of_its_names(pipeline: Trained) -> None:
    names = (
        pipeline.run_id,
        pipeline.parent,
        "char",
        "bidaf-words/1",
        "models:/bidaf-words/1",
        "champion",
    )
    assert len({lineage(name) for name in (*names, "bidaf-words@champion")}) == 1


def test_missing_and_changed_inputs_are_reported(files: list[Path], tmp_path: Path) -> None:
    before = files[1].read_bytes()
    files[0].rename(tmp_path / "kept.txt")
    files[1].write_bytes(before + b" ")
    try:
        output = lineage("champion")
    finally:
        files[1].write_bytes(before)
        (tmp_path / "kept.txt").rename(files[0])
    assert f"missing  {files[0]}" in output
    assert f"changed  {files[1]}" in output


def test_unknown_runs_give_a_clear_error(pipeline: Trained) -> None:
    assert lineage("nobody").startswith("MLflow has no run 'nobody'. Give")


def test_pruned_stages_are_reported(pipeline: Trained, tmp_path: Path) -> None:
    shutil.move(pipeline.counts, tmp_path / "counts")
    assert re.search(r"count/\w+ +digest \w+ +pruned", lineage("champion"))
    shutil.move(pipeline.model, tmp_path / "model")
    assert "pruned. Digests of its inputs: train.digest abc" in lineage("champion")
    shutil.move(tmp_path / "counts", pipeline.counts)
    shutil.move(tmp_path / "model", pipeline.model)
