"""`bidaflow convert`: a mistake gets one sentence, and leaves no file."""

import json
from pathlib import Path

import pytest

from tests.factories.cli import bidaflow


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["own.json", "made.csv"], 1, "ends in neither .json nor .jsonl."),
        (["missing.json", "made.json"], 1, "No such file: "),
        (["own.json", "folder", "--format", "squad"], 1, "can't be written: Is a directory."),
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
