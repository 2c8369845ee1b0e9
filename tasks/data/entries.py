"""Checks the records of question files: what is invalid in a question, and where."""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from itertools import groupby
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tasks.data.format_errors import FormatError, explain, field_error, on_one_line, short_json
from tasks.data.importers.records import Counts, Record, questions_of
from tasks.data.importers.table import Importer
from tasks.data.schema import Article, FlatQuestion, InvalidQuestion, Paragraph, Question

# Values that replace invalid fields of a question.
_REPLACEMENTS: dict[int | str, Any] = {"question": "", "answers": [], "is_impossible": False}
MADE_IDS = "without an id (a digest of context and question is the id)"


class Entry(NamedTuple):
    """An article of a file; or a row, an article of one question, which other rows continue."""

    article: Article
    is_row: bool = False

    @property
    def group(self) -> tuple[str, str] | None:
        """What consecutive rows of one article have in common: the title, or the context if they
        have none; None if it is not a row."""
        if not self.is_row:
            return None
        title = self.article.title
        return ("title", title) if title else ("context", self.article.paragraphs[0].context)


class RecordParser:
    """Makes entries of the records of a file, and counts what was changed or left out.

    With `keep_all`, questions that can't be trained on, such as those of cancelled tasks, are kept.
    """

    def __init__(self, importer: Importer, counts: Counts, keep_all: bool) -> None:
        self.importer, self.counts, self._keep_all = importer, counts, keep_all
        self._made_ids: Counter[str] = Counter()

    def parse(self, record: Any, place: str) -> Iterator[Entry]:
        """The entries of a record.

        Raises FormatError, which names the place, if a field is missing or invalid that is not a
        question's.
        """
        if not isinstance(record, dict):
            raise FormatError(f"{place}: found {short_json(record)}; it should be an object.")
        try:
            converted = list(self.importer.convert(record, self.counts))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise FormatError(
                f"{place} is not as {self.importer.name} has it ({reason}). Fix it, or remove it."
            ) from error
        for item in converted:
            if "paragraphs" in item:
                yield Entry(self._article(item, place))
            elif "left_out" not in item or self._keep_all:
                yield Entry(self._row(item, place), is_row=True)
            else:
                self.counts[item["left_out"]] += 1

    def _article(self, record: Record, place: str) -> Article:
        """The record as an article, with an InvalidQuestion for each invalid question."""
        for paragraph, question in questions_of(record):
            self._name(question, paragraph)
        try:
            return Article.model_validate(record)
        except ValidationError as error:
            details = _question_errors(error, 4, record, place)
        for (_, paragraph, _, number), errors in groupby(details, lambda detail: detail["loc"][:4]):
            questions = record["paragraphs"][paragraph]["qas"]
            questions[number] = _invalid(questions[number], list(errors), 4)
        return Article.model_validate(record)

    def _row(self, record: Record, place: str) -> Article:
        """The row as an article of one question, which may be an InvalidQuestion."""
        self._name(record, record)
        try:
            flat = FlatQuestion.model_validate(record)
            impossible = not flat.answers if flat.is_impossible is None else flat.is_impossible
            fields = flat.model_dump(include={"id", "question"})
            question = Question(**fields, answers=flat.answers, is_impossible=impossible)
        except ValidationError as error:
            question = _invalid(record, _question_errors(error, 0, record, place), 0)
            flat = FlatQuestion.model_validate({**record, **_REPLACEMENTS})
        self.counts["without answer"] += question.is_impossible
        paragraph = Paragraph(context=flat.context, qas=[question])
        return Article(title=flat.title, paragraphs=[paragraph])

    def _name(self, question: Record, paragraph: Record) -> None:
        """Give a question without an id one of its own."""
        context, text = paragraph.get("context"), question.get("question")
        has_texts = isinstance(context, str) and isinstance(text, str)
        if has_texts and question.get("id") is None:
            named = f"{context}\n{text}".encode(errors="surrogatepass")
            digest = blake2b(named, digest_size=12).hexdigest()
            self._made_ids[digest] += 1
            number = self._made_ids[digest]
            question["id"] = f"{digest}-{number}" if number > 1 else digest
            self.counts[MADE_IDS] += 1


def _question_errors(
    error: ValidationError, depth: int, record: Any, place: str
) -> list[ErrorDetails]:
    """The errors, if all are in questions; else raises FormatError.

    `depth` is the number of steps from the record to a question. A question without a valid id
    can't be named, so it is not merely invalid.
    """
    details = error.errors(include_url=False, include_input=False)
    if any(_REPLACEMENTS.keys().isdisjoint(detail["loc"][depth : depth + 1]) for detail in details):
        raise field_error(error, place, record) from error
    return details


def _invalid(question: Any, errors: list[ErrorDetails], depth: int) -> InvalidQuestion:
    replaced = {detail["loc"][depth]: _REPLACEMENTS[detail["loc"][depth]] for detail in errors}
    reason = on_one_line(explain(errors[0], depth, question))
    return InvalidQuestion.model_validate(
        {**question, **replaced, "is_impossible": False, "reason": reason}
    )
