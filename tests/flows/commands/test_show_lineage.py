"""Lineage from a run to its input files and back, over real stages and a real MLflow."""

import hashlib
import re
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from flows.commands import show_lineage
from infra.artifacts import manifest
from infra.artifacts.manifest import content_digest
from infra.errors import UserError
from tests.factories.cli import bidaflow
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


def lineage(
    run: str | None = None, file: str | None = None, verify: bool = False, full: bool = True
) -> str:
    """What the command prints, or the message of its error."""
    with redirect_stdout(StringIO()) as printed:
        try:
            show_lineage.lineage(run, file=file, verify=verify, full=full)
        except UserError as error:
            assert printed.getvalue() == ""
            return str(error)
    return printed.getvalue()


def test_run_lineage_reaches_input_digests(pipeline: Trained, files: list[Path]) -> None:
    output = lineage(pipeline.run_id, verify=True)
    assert re.search(r"char .* FINISHED .* bidaf-words/1 +bidaf-words@champion", output)
    for file in (*files, pipeline.words / "words.parquet", pipeline.counts / "counts.json"):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        (line,) = [line for line in output.splitlines() if digest in line]
        assert "intact" in line
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
    assert ", git unknown" in lineage(run_id, full=False)


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


def test_file_leads_to_its_runs_and_models(pipeline: Trained, files: list[Path]) -> None:
    output = lineage(file=str(files[1]))
    steps = ["read/", "count/", "train/", pipeline.run_id, "bidaf-words/1"]
    assert sorted(steps, key=output.index) == steps
    digest = hashlib.sha256(files[1].read_bytes()).hexdigest()
    assert lineage(file=digest[:8]).splitlines()[1:] == output.splitlines()[1:]
    assert pipeline.run_id in lineage(file=content_digest(pipeline.counts))


def test_verify_reports_missing_and_changed_files(
    pipeline: Trained, files: list[Path], tmp_path: Path, folder: Path
) -> None:
    counts = pipeline.counts / "counts.json"
    before = counts.read_bytes()
    (folder / "kept").mkdir()
    files[0].rename(folder / "kept" / "a.txt")
    try:
        counts.write_bytes(before[:-1] + b" ")
        output = lineage("champion", verify=True)
    finally:
        counts.write_bytes(before)
        (folder / "kept" / "a.txt").rename(files[0])
    assert re.search(r"a\.txt +missing", output)
    assert re.search(r"counts\.json +changed", output)
    assert re.search(r"b\.txt +intact", output)


def test_unknown_runs_and_files_give_a_clear_error(pipeline: Trained, files: list[Path]) -> None:
    assert lineage("nobody").startswith("MLflow has no run 'nobody'. Give")
    assert lineage(file="/nowhere/x.json").startswith("No stage has /nowhere/x.json as")
    assert lineage(file="0123456789ab").startswith("No stage has 0123456789ab as")


@pytest.mark.parametrize(("run", "file"), [(None, None), ("champion", "a.txt")])
def test_needs_either_a_run_or_a_file(run: str | None, file: str | None) -> None:
    assert lineage(run, file) == "Give a run, such as champion, or --file with a file."


def test_pruned_stages_are_reported(pipeline: Trained, tmp_path: Path) -> None:
    shutil.move(pipeline.counts, tmp_path / "counts")
    assert re.search(r"count/\w+ +digest \w+ +pruned", lineage("champion"))
    shutil.move(pipeline.model, tmp_path / "model")
    assert "pruned. Digests of its inputs: train.digest abc" in lineage("champion")
    shutil.move(tmp_path / "counts", pipeline.counts)
    shutil.move(tmp_path / "model", pipeline.model)


def test_summary_has_model_code_and_inputs(
    pipeline: Trained, files: list[Path], folder: Path
) -> None:
    done = bidaflow(folder / "root", "lineage", "champion", "--verify", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 12
    assert lines[0].startswith("Run        char, ") and lines[1].split() == [pipeline.run_id]
    assert lines[2] == "Model      bidaf-words/1, bidaf-words@champion"
    inputs = {line for line in lines if line.startswith("Input ")}
    for file in files:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
        size = f"{file.stat().st_size} bytes"
        assert f"Input      {digest}  {size}  intact  {file}" in inputs
    assert re.search(r"^Files +\d+ files of \d+ steps intact$", done.stdout, re.MULTILINE)
    assert lines[-1] == "Details    add --all"


def test_summary_names_missing_changed_and_pruned(pipeline: Trained, tmp_path: Path) -> None:
    words = pipeline.words / "words.parquet"
    shutil.move(words, tmp_path / "words.parquet")
    try:
        assert re.search(rf"^Missing    {words}$", lineage("champion", full=False), re.MULTILINE)
    finally:
        shutil.move(tmp_path / "words.parquet", words)
    shutil.move(pipeline.counts, tmp_path / "counts")
    try:
        name = f"count/{pipeline.counts.name}"
        assert re.search(f"^Pruned     {name}$", lineage("champion", full=False), re.MULTILINE)
    finally:
        shutil.move(tmp_path / "counts", pipeline.counts)


def test_summary_of_a_file_names_its_runs(pipeline: Trained, files: list[Path]) -> None:
    lines = lineage(file=str(files[1]), full=False).splitlines()
    assert lines[0] == f"File       {files[1]}"
    assert re.fullmatch(r"Used by    \d+ steps of 1 kept run", lines[1])
    assert pipeline.run_id in lines[2] and "bidaf-words@champion" in lines[2]
    assert len(lines) == 4
