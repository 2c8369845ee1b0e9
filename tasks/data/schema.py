"""The SQuAD data model, versions 1.1 and 2.0: articles, paragraphs, questions and answers."""

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


def _minus_one_for_null(start: Any) -> Any:
    return -1 if start is None else start


class Answer(_Record):
    """A text and the index of its first code point in the context (-1 if the file lacks it)."""

    text: Text
    answer_start: Annotated[int, BeforeValidator(_minus_one_for_null), Field(ge=-1, lt=2**31)] = -1


class Question(_Record):
    """A question with its annotators' answers; the list is empty if it has no answer."""

    id: QuestionId
    question: Text
    answers: list[Answer]
    is_impossible: bool = False


class InvalidQuestion(Question):
    """A question with an invalid field, which is replaced; `reason` says what is wrong with it."""

    reason: str


class Paragraph(_Record):
    """A context and the questions about it."""

    context: Text
    qas: list[Question]


class Article(_Record):
    """A group of paragraphs; titles may repeat or be missing."""

    title: Text = ""
    paragraphs: list[Paragraph]


class FlatQuestion(_Record):
    """A question that includes its context, as in JSON Lines and Parquet files."""

    id: QuestionId
    title: Text | None = None
    context: Text
    question: Text
    answers: list[Answer]
    is_impossible: bool | None = None
