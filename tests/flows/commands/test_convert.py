"""`bidaflow convert`: a mistake gets one sentence, and leaves no file."""

import json
from pathlib import Path

import pytest

from flows.commands.convert import convert
from infra.errors import UserError
from tests.factories.cli import bidaflow
from tests.factories.file_server import Served, serving
from tests.factories.object_store import ObjectStore


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["own.json", "made.csv"], 1, "ends in neither .json nor .jsonl."),
        (["missing.json", "made.json"], 1, "No such file: "),
        (["own.json", "folder", "--format", "squad"], 1, "can't be written to: "),
        (["own.json", "made.json", "--columns", "text"], 2, "'text' is not FIELD=COLUMN"),
    ],
)
def test_mistake_gets_one_sentence(
    tmp_path: Path, words: list[str], status: int, message: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "own.json").write_text(json.dumps({"data": []}))
    names = sorted(tmp_path.iterdir())
    files = [str(tmp_path / word) if number < 2 else word for number, word in enumerate(words)]
    done = bidaflow(tmp_path / "root", "convert", *files)
    assert done.returncode == status and message in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert sorted(path for path in tmp_path.iterdir() if path.name != "root") == names


@pytest.mark.usefixtures("root")
def test_addresses_are_read_and_written(tmp_path: Path, store: ObjectStore) -> None:
    row = {"id": "1", "title": "", "context": "The gold bar", "question": "What?"}
    row |= {"answers": [{"text": "gold", "answer_start": 4}], "is_impossible": False}
    with serving(Served(json.dumps([row]).encode())) as server:
        convert(server.url, "s3://results/data/made.jsonl")
        convert(server.url, "s3://results/data/other.jsonl")
    convert("s3://results/data/made.jsonl", str(tmp_path / "made.jsonl"))
    assert json.loads((tmp_path / "made.jsonl").read_text()) == row
    with pytest.raises(UserError, match=r"has 2 files\. Name one of them"):
        convert("s3://results/data/", str(tmp_path / "again.json"))
