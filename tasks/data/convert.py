"""Writes questions as SQuAD JSON, as rows in JSON Lines, or as tasks for Label Studio."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from tasks.data.readers import Reading, find_convention, read_articles
from tasks.data.schema import Article, InvalidQuestion, Question

OutputFormat = Literal["squad", "jsonl", "label-studio"]
# What is before the records, between them, and after them.
_FRAMES: dict[OutputFormat, tuple[bytes, bytes, bytes]] = {
    "squad": (b'{"version": "v2.0", "data": [\n', b",\n", b"\n]}\n"),
    "jsonl": (b"", b"\n", b"\n"),
    "label-studio": (b"[\n", b",\n", b"\n]\n"),
}


def convert_file(
    file: Path, out: Path, output_format: OutputFormat, columns: str = ""
) -> tuple[int, int]:
    """Write the questions of a file into `out`; returns how many, and how many were invalid.

    Invalid questions, of which a field is missing or has a wrong type, are left out. Memory holds
    one article at a time.

    Raises:
        UserError: as `read_articles` does.
    """
    reading = Reading(columns, find_convention(file, Reading(columns)))
    questions = invalid = 0
    before, between, after = _FRAMES[output_format]
    with out.open("wb") as stream:
        stream.write(before)
        for article in read_articles(file, reading):
            valid = [_is_valid(question) for _, question in article.questions()]
            invalid += valid.count(False)
            for record in _RECORDS[output_format](article):
                text = json.dumps(record, ensure_ascii=False).encode()
                stream.write(between * (stream.tell() > len(before)) + text)
            questions += valid.count(True)
        stream.write(after)
    return questions, invalid


def _is_valid(question: Question) -> bool:
    return not isinstance(question, InvalidQuestion)


def _questions(article: Article) -> Iterator[tuple[str, dict[str, Any]]]:
    """The context and the fields of each valid question."""
    for context, question in article.questions():
        if _is_valid(question):
            fields = question.model_dump(exclude={"answers": {"__all__": {"end"}}})
            fields["answers"] *= not question.is_impossible
            yield context, fields


def _squad(article: Article) -> Iterator[dict[str, Any]]:
    paragraphs: dict[str, list[dict[str, Any]]] = {}
    for context, fields in _questions(article):
        paragraphs.setdefault(context, []).append(fields)
    parts = [{"context": context, "qas": questions} for context, questions in paragraphs.items()]
    yield {"title": article.title, "paragraphs": parts}


def _rows(article: Article) -> Iterator[dict[str, Any]]:
    for context, fields in _questions(article):
        yield {"title": article.title, "context": context, **fields}


def _tasks(article: Article) -> Iterator[dict[str, Any]]:
    """A task for each question: an annotation for each of its answers, or an empty one."""
    region = {"from_name": "answer", "to_name": "text", "type": "labels"}
    for context, fields in _questions(article):
        results = [
            [{**region, "id": str(number), "value": {
                "start": answer["answer_start"],
                "end": answer["answer_start"] + len(answer["text"]),
                "text": answer["text"],
                "labels": ["Answer"],
            }}]
            for number, answer in enumerate(fields["answers"])
        ]  # fmt: skip
        data = {"id": fields["id"], "title": article.title, "question": fields["question"]}
        yield {
            "data": {**data, "text": context},
            "annotations": [
                {"result": result} for result in results or [[]] * fields["is_impossible"]
            ],
        }


_RECORDS = {"squad": _squad, "jsonl": _rows, "label-studio": _tasks}
