"""What importers make of a record, before it is validated: articles or rows, as dictionaries.

An article has a `title` and `paragraphs`, as in SQuAD's JSON. A row is a question with its context:
`id`, `title`, `context`, `question`, `answers` and `is_impossible`. An answer without its text has
an `end`. A row that is not trained on has the reason in `left_out`.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

Record = dict[str, Any]
Counts = Counter[str]  # what was left out or changed, in words that follow the number
Records = Iterator[Record]


def span(start: Any, end: Any, text: Any = None) -> Record:
    """An answer, of which the text may be unknown."""
    return {"text": text or "", "answer_start": start, "end": None if text else end}


def first_field(record: Record, *names: str) -> Any:
    """The value of the first of these fields that the record has; KeyError if it has none."""
    return record[next((name for name in names if name in record), names[0])]


def questions_of(article: Record) -> Iterator[tuple[Record, Record]]:
    """Each question of an article that may be malformed, with its paragraph."""
    for paragraph in _objects(article.get("paragraphs")):
        yield from ((paragraph, question) for question in _objects(paragraph.get("qas")))


def _objects(values: Any) -> list[Record]:
    return (
        [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
    )
