"""The SQuAD data model, versions 1.1 and 2.0: articles, paragraphs, questions and answers."""

import re
from collections.abc import Iterator
from copy import copy
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


class _Record(BaseModel):
    # Other fields (plausible_answers, document_id, …) are ignored.
    model_config = ConfigDict(strict=True, frozen=True)


def _require_characters(text: str) -> str:
    """The text; raises ValueError if it has an unpaired surrogate, which no file could store."""
    text.encode()
    return text


Text = Annotated[str, AfterValidator(_require_characters)]
# Some collections have numeric question ids: 262 is read as "262".
QuestionId = Annotated[
    str,
    Field(strict=False, coerce_numbers_to_str=True, min_length=1),
    AfterValidator(_require_characters),
]


def _start(start: Any) -> Any:
    """A start as a number: -1 for null, 17 for "17" and for "17.0", as tables have it."""
    if start is None or start == "":
        return -1
    is_text = isinstance(start, str | float) and re.fullmatch(r"-?\d{1,12}(\.0)?", str(start))
    return int(float(start)) if is_text else start


_FLAGS = {"0": False, "1": True, "false": False, "true": True, "": None}


def _flag(flag: Any) -> Any:
    """A flag that may be written as 0 or 1, or as text in a table; "" is null."""
    return _FLAGS.get(str(flag).lower(), flag) if isinstance(flag, str | int) else flag


def _null_as(value: Any) -> BeforeValidator:
    return BeforeValidator(lambda given: copy(value) if given is None else given)


class Answer(_Record):
    """A text and the index of its first code point in the context (-1 if the file lacks it).

    `end` is set only if the file has the span's end in place of its text.
    """

    text: Text
    answer_start: Annotated[int, BeforeValidator(_start), Field(ge=-1, lt=2**31)] = -1
    end: int | None = None


Answers = Annotated[list[Answer], _null_as([])]


class Question(_Record):
    """A question with its annotators' answers; the list is empty if it has no answer."""

    id: QuestionId
    question: Text
    answers: Answers
    is_impossible: Annotated[bool, _null_as(False), BeforeValidator(_flag)] = False


class InvalidQuestion(Question):
    """A question with an invalid field, which is replaced; `reason` says what is wrong with it."""

    reason: str


class Paragraph(_Record):
    """A context and the questions about it."""

    context: Text
    qas: list[Question]


class Article(_Record):
    """A group of paragraphs; titles may repeat or be missing."""

    title: Annotated[Text, _null_as("")] = ""
    paragraphs: list[Paragraph]

    def questions(self) -> Iterator[tuple[str, Question]]:
        """Yield each question, after its context."""
        yield from ((part.context, question) for part in self.paragraphs for question in part.qas)


class FlatQuestion(_Record):
    """A question that includes its context, as in JSON Lines and Parquet files."""

    id: QuestionId
    title: Annotated[Text, _null_as("")] = ""
    context: Text
    question: Text
    answers: Answers
    is_impossible: Annotated[bool | None, BeforeValidator(_flag)] = None
