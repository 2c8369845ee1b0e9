"""`bidaflow check`, run as users run it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tasks.datasets.tiny import generate
from tests.factories.cli import bidaflow, tests_server

pytestmark = pytest.mark.heavy


def check(root: Path, data: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return bidaflow(root, "check", str(data), *flags, COLUMNS="200", **tests_server())


def shift(articles: list[dict[str, Any]]) -> None:
    for article in articles:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                for answer in question["answers"]:
                    answer["answer_start"] += 1


def test_reports_each_file_and_sets_the_exit_status(prefect_server: None, tmp_path: Path) -> None:
    folder, root = tmp_path / "own", tmp_path / "root"
    folder.mkdir()
    articles: list[dict[str, Any]] = generate(3, 10)[0]["data"]
    shift(articles[5:10])
    (folder / "a.json").write_text(json.dumps({"data": articles[:5]}))
    (folder / "b.json").write_text(json.dumps({"data": articles[5:10]}))
    (folder / "c.json").write_text('{"data": [')
    broken = check(root, folder)
    assert broken.returncode == 1
    assert f"{folder / 'b.json'}: 200 of 250 questions (80.0%) can't be trained on" in broken.stdout
    assert 'e.g. question "train-005-0-' in broken.stdout
    assert f"{folder / 'c.json'}: not valid JSON (found the end" in broken.stdout

    (folder / "c.json").unlink()
    repaired = check(root, folder, "--data.repair")
    assert repaired.returncode == 0, repaired.stderr
    assert (root / "reports" / "check-own.html").exists()

    (tmp_path / "one.json").write_text(json.dumps({"data": articles[:1]}))
    one = check(root, tmp_path / "one.json")
    assert one.returncode == 1
    assert "Problem    The data contain only one article" in one.stdout
