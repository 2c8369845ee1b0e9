"""Every convention of offsets: a file of 200 questions, a twentieth of which it concerns."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tasks.data.ingest import ingest_file
from tests.factories.question_formats import (
    Asked,
    label_studio_without_text,
    questions,
    squad,
    utf16,
)

Change = Callable[[Asked], Asked]


def every(text: str) -> Callable[[int], str]:
    """A prefix of the contexts of every twentieth pair of questions."""
    return lambda number: text if number % 20 == 0 else ""


def utf8(q: Asked) -> Asked:
    return q._replace(start=len(q.context[: q.start].encode()))


def line_ends_as_one(q: Asked) -> Asked:
    return q._replace(start=(q.start or 0) - q.context[: q.start].count("\r\n"))


def line_ends_as_two(q: Asked) -> Asked:
    more = q.context[: q.start].count("\n") if q.context.startswith("*") else 0
    return q._replace(start=(q.start or 0) + more)


def after_leading_space(q: Asked) -> Asked:
    return q._replace(start=(q.start or 0) - len(q.context) + len(q.context.lstrip()))


def stripped(q: Asked) -> Asked:
    return q._replace(start=(q.start or 0) + q.context.startswith("*"))


def shifted_by_context(q: Asked) -> Asked:
    number = int(q.id.partition("-")[0])
    return q._replace(start=(q.start or 0) + (number + 3) * q.context.startswith("*"))


CONVENTIONS: dict[str, tuple[str, Change]] = {
    "UTF-16 code units": ("🛠️ ", utf16),
    "UTF-8 bytes": ("Łódź: ", utf8),
    "code points with each \\r\\n as one": ("A list\r\nof two\r\n", line_ends_as_one),
    "code points with each line end as two": ("* one\ntwo\n", line_ends_as_two),
    "code points, shifted by 1": ("*\n", stripped),
    "code points after the white space that begins a context": ("   ", after_leading_space),
    "code points, shifted in some contexts": ("*", shifted_by_context),
}


def starts_of(folder: Path, content: object) -> tuple[list[str], list[list[int]]]:
    """How the file was read, and the starts of the answers to each question."""
    file = folder / "own.json"
    file.write_text(json.dumps(content))
    facts = ingest_file(folder, file)
    rows = pq.read_table(folder / "questions.parquet").to_pylist()
    assert len(rows) == 200
    return facts["read_as"], [[answer["start"] for answer in row["answers"]] for row in rows]


@pytest.mark.parametrize("name", CONVENTIONS)
def test_convention_is_found(tmp_path: Path, name: str) -> None:
    prefix, change = CONVENTIONS[name]
    asked = questions(every(prefix))
    read_as, starts = starts_of(tmp_path, squad(map(change, asked)))
    assert read_as[1:] == [f"offsets are {name}: 10 answers were moved"]
    assert starts == [[q.start] for q in asked]


def inclusive(q: Asked) -> Asked:
    is_concerned = int(q.id.partition("-")[0]) % 20 == 0
    return q._replace(text=q.text[:-1]) if is_concerned else q


@pytest.mark.parametrize("name", ["UTF-16 code units", "UTF-8 bytes", "inclusive"])
def test_token_borders_decide_without_texts(tmp_path: Path, name: str) -> None:
    prefix, change = CONVENTIONS.get(name, ("", inclusive))
    asked = questions(every(prefix))
    read_as, starts = starts_of(tmp_path, label_studio_without_text(map(change, asked)))
    assert name in read_as[1]
    assert starts == [[q.start] for q in asked]
    spans = pq.read_table(tmp_path / "questions.parquet", columns=["answers"]).to_pylist()
    assert [row["answers"][0]["text"] for row in spans] == [q.text for q in asked]


def test_few_or_mixed_mistakes_change_nothing(tmp_path: Path) -> None:
    """Four answers are too few, and a convention that explains half of them is not the file's."""
    asked = questions(every("🛠️ "))
    few = [utf16(q) if number < 4 else q for number, q in enumerate(asked)]
    read_as, _ = starts_of(tmp_path, squad(few))
    assert len(read_as) == 1
    odd = [q._replace(start=3 * number + 7) for number, q in enumerate(asked[2:22])]
    read_as, _ = starts_of(tmp_path, squad([utf16(q) for q in asked[:2]] + odd + asked[22:]))
    assert len(read_as) == 1
