"""Mutated real files are ingested, or rejected with a one-line message that names the file, which
does not depend on how the files are cut into shards."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infra.errors import UserError
from tasks.data import readers
from tasks.data.ingest import ingest_file
from tasks.data.readers import read_articles

SQUAD_FILES = ("squad/dev-v1.1.json", "squad/dev-v2.0.json", "qa/squadshifts-new_wiki.json")
Tree = dict[str, Any]
Mutation = Callable[[bytes, Random], bytes]


def excerpt(file: Path) -> Tree:
    """Two articles of a real file, with two paragraphs and a few questions of each."""
    articles = json.loads(file.read_bytes())["data"][:2]
    for article in articles:
        article["paragraphs"] = article["paragraphs"][:2]
        for paragraph in article["paragraphs"]:
            paragraph["qas"] = paragraph["qas"][:3]
    return {"version": "1.1", "data": articles}


def flat(tree: Tree) -> list[Tree]:
    return [
        {"title": article["title"], "context": paragraph["context"], **question}
        for article in tree["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


def as_json(tree: Tree) -> bytes:
    return json.dumps(tree, ensure_ascii=False, indent=1).encode()


def as_lines(tree: Tree) -> bytes:
    return b"".join(json.dumps(question).encode() + b"\n" for question in flat(tree))


def as_parquet(tree: Tree) -> bytes:
    names = ("id", "title", "context", "question", "answers")
    rows = [{name: question[name] for name in names} for question in flat(tree)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


FORMATS = {"json": as_json, "jsonl": as_lines, "parquet": as_parquet}


def flip(content: bytes, random: Random) -> bytes:
    mutated = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 8])):
        mutated[random.randrange(len(mutated))] = random.choice(
            [random.randrange(256), *b'{}[]",:\\\n\0']
        )
    return bytes(mutated)


def truncate(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content))]


def delete(content: bytes, random: Random) -> bytes:
    start = random.randrange(len(content))
    return content[:start] + content[start + random.randrange(1, 300) :]


def duplicate(content: bytes, random: Random) -> bytes:
    start = random.randrange(len(content))
    end = start + random.randrange(1, 300)
    return content[:end] + content[start:end] + content[end:]


MUTATIONS: dict[str, Mutation] = {
    mutation.__name__: mutation for mutation in (flip, truncate, delete, duplicate)
}
STRANGE = [None, True, 0, -1, 4.5, 1e308, 2**70, "", "\0", "\ud800", "é" * 99, [], {}, [[]]]


def swapped(tree: Tree, random: Random) -> Tree:
    """A copy of the tree with one value replaced by an unusual one, removed, or duplicated."""
    mutated: Tree = json.loads(json.dumps(tree))
    places = list(_places(mutated))
    container, key = random.choice(places)
    action = random.choice(["exchange", "exchange", "drop", "repeat"])
    if action == "exchange":
        container[key] = random.choice(STRANGE)
    elif action == "drop":
        del container[key]
    elif isinstance(container, list):
        container.insert(key, container[key])
    return mutated


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


def ingest_error(file: Path, out: Path) -> str:
    """The error message for the file, or "" if all its questions are ingested."""
    try:
        ids = [q.id for article in read_articles(file) for p in article.paragraphs for q in p.qas]
    except UserError as error:
        message = str(error)
        assert message.startswith(f"{file}: ") or message.startswith(f"{file} can't be read")
        assert "\n" not in message and message.rstrip(")").endswith("."), message
        ids, expected = [], (message,)
    else:
        expected = ("no questions found", "occurs twice")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(readers, "SHARD_BYTES", 2000)
            ingest_file(out, file)
    except UserError as error:
        assert any(sentence in str(error) for sentence in expected)
        return str(error)
    assert pq.read_table(out / "questions.parquet", columns=["id"])["id"].to_pylist() == ids
    return ""


NUMBERS = [20, pytest.param(420, marks=[pytest.mark.heavy, pytest.mark.full])]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
@pytest.mark.parametrize("ending", FORMATS)
def test_mutated_bytes_load_or_give_a_clear_error(
    shared_data: Path, tmp_path: Path, ending: str, mutation: Mutation, number: int
) -> None:
    random = Random(f"{ending} {mutation.__name__} {number}")
    contents = [FORMATS[ending](excerpt(shared_data / name)) for name in SQUAD_FILES]
    file = tmp_path / f"mutated.{ending}"
    errors = set()
    for i in range(number):
        file.write_bytes(mutation(contents[i % len(contents)], random))
        errors.add(ingest_error(file, tmp_path))
    assert any(errors)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_swapped_values_load_or_give_a_clear_error(
    shared_data: Path, tmp_path: Path, ending: str, number: int
) -> None:
    random = Random(f"{ending} {number}")
    trees = [excerpt(shared_data / name) for name in SQUAD_FILES]
    file = tmp_path / f"mutated.{ending}"
    errors = set()
    for i in range(number):
        tree = swapped(trees[i % len(trees)], random)
        if ending == "json":
            file.write_text(json.dumps(tree))
        else:
            rows = flat(trees[i % len(trees)])
            rows[random.randrange(len(rows))] = swapped(rows[0], random)
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        errors.add(ingest_error(file, tmp_path))
    assert len(errors) > number / 20
