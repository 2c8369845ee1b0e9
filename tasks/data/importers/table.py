"""The table of importers: how each format is recognised, and what converts its records."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tasks.data.importers import annotation_tools, published, squad
from tasks.data.importers.records import Counts, Record, Records


class Importer(NamedTuple):
    """A format: its name, what its records are, the test of the first one, and their conversion."""

    name: str
    noun: str  # with "s" as its plural
    recognises: Callable[[Record], bool]
    convert: Callable[[Record, Counts], Records]
    note: str = ""  # what is not read

    def __reduce__(self) -> tuple[Callable[[str], "Importer"], tuple[str]]:
        return _named, (self.name,)  # its functions do not travel to other processes


def _named(name: str) -> Importer:
    return next(importer for importer in IMPORTERS if importer.name == name)


def _has(*names: str) -> Callable[[Record], bool]:
    return lambda record: all(name in record for name in names)


def _any_question(record: Record, holds: Callable[[Record], bool]) -> bool:
    """Whether one of the first paragraph's questions is like that; of a malformed one, none is."""
    try:
        return any(holds(question) for question in record["paragraphs"][0]["qas"])
    except (KeyError, IndexError, TypeError, AttributeError):
        return False


def _is_quac(record: Record) -> bool:
    return _any_question(record, _has("followup", "yesno"))


def _is_haystack(record: Record) -> bool:
    return _any_question(
        record, lambda question: any("answer_category" in answer for answer in question["answers"])
    )


def _is_cuad(record: Record) -> bool:
    return _any_question(
        record, lambda question: question["question"].startswith("Highlight the parts (if any)")
    )


def _is_doccano(record: Record) -> bool:
    labels = record.get("label", record.get("labels", record.get("entities")))
    if labels is None:
        labels = record.get("annotations")
    return ("text" in record or isinstance(record.get("data"), str)) and isinstance(labels, list)


def _is_label_studio(record: Record) -> bool:
    data = record.get("data")
    return isinstance(data, dict) and any(name in data for name in annotation_tools.TEXT)


SQUAD = Importer("SQuAD JSON", "article", _has("paragraphs"), squad.articles_or_rows)
ROWS = Importer("rows", "row", _has("context", "question"), squad.articles_or_rows)
REQUIRED = ("context", "question")
OPTIONAL = ("id", "title", "answer", "answer_start", "answers", "is_impossible")
FIELDS = (*REQUIRED, *OPTIONAL)
HISTORY = "the history of the dialog is left out"
IMPORTERS = (
    Importer("QuAC JSON", "article", _is_quac, squad.articles_or_rows, HISTORY),
    Importer("Haystack's SQuAD JSON", "article", _is_haystack, squad.articles_or_rows),
    Importer(
        "CUAD JSON",
        "article",
        _is_cuad,
        squad.articles_or_rows,
        "of several spans of an answer, training uses the first",
    ),
    SQUAD,
    Importer(
        "MRQA JSON Lines",
        "line",
        lambda record: (
            "header" in record
            or ("qas" in record and any("detected_answers" in qa for qa in record["qas"]))
        ),
        squad.mrqa,
        "the marks [TLE], [DOC] and [PAR] stay in the contexts",
    ),
    Importer(
        "simpletransformers' JSON",
        "context",
        _has("context", "qas"),
        squad.context_with_questions,
    ),
    Importer("DuoRC JSON", "plot", _has("plot", "qa"), published.duorc),
    Importer("CoQA JSON", "dialog", _has("story", "questions"), published.coqa, HISTORY),
    Importer("NewsQA JSON", "text", _has("text", "questions", "storyId"), published.newsqa),
    Importer(
        "a table of NewsQA",
        "row",
        lambda record: (
            "question" in record
            and ("answer_char_ranges" in record or "answer_token_ranges" in record)
        ),
        published.newsqa_table,
    ),
    Importer(
        "TyDi QA's primary task",
        "article",
        _has("document_plaintext", "passage_answer_candidates", "annotations"),
        published.tydi,
        "the context is the passage with the answer",
    ),
    Importer("Label Studio JSON", "task", _is_label_studio, annotation_tools.label_studio),
    Importer(
        "Label Studio JSON-MIN",
        "task",
        _has("id", "text", "annotation_id"),
        annotation_tools.label_studio_min,
    ),
    Importer("Prodigy JSON Lines", "text", _has("text", "spans"), annotation_tools.prodigy),
    Importer("doccano JSON Lines", "text", _is_doccano, annotation_tools.doccano),
    ROWS,
)
ACCEPTED = (
    "Accepted are SQuAD JSON, rows of questions with contexts (JSON, JSON Lines, CSV, TSV or "
    "Parquet; data.columns names other columns), and exports of Label Studio, doccano, Prodigy and "
    "Haystack; see docs/data.md."
)


def recognise(record: Any) -> Importer | None:
    """The format of a file whose first record this is; None if it is not known."""
    return next((importer for importer in IMPORTERS if _recognises(importer, record)), None)


def _recognises(importer: Importer, record: Any) -> bool:
    try:
        return isinstance(record, dict) and importer.recognises(record)
    except TypeError:  # a field is not a list
        return False


def parse_columns(text: str) -> dict[str, str]:
    """The column of each field, from `data.columns`: "question=q,context=text,answer=a".

    Raises:
        ValueError: a part is not of this form, or names an unknown field.
    """
    columns = {}
    for part in filter(None, text.split(",")):
        field, _, column = map(str.strip, part.partition("="))
        if field not in FIELDS or not column:
            raise ValueError(f"{part!r} is not FIELD=COLUMN; fields are {', '.join(FIELDS)}")
        columns[field] = column
    return columns


def renamed(record: Any, columns: Mapping[str, str]) -> Any:
    """A row, or the data of a task, with the fields of its columns; a record without these columns
    stays as it is."""
    if columns and isinstance(record, dict) and isinstance(record.get("data"), dict):
        return record | {"data": renamed(record["data"], columns)}
    if not (columns and isinstance(record, dict) and set(columns.values()) <= record.keys()):
        return record
    rest = {name: value for name, value in record.items() if name not in columns.values()}
    return rest | {field: record[column] for field, column in columns.items()}
