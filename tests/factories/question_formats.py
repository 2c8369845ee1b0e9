"""200 invented questions, and files of them in the formats of datasets and annotation tools."""

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

NAMES = ("Marlo", "Quinta", "Bressel", "Odwin", "Tarvik", "Ulmenau", "Zorrick", "Ferrow")


class Asked(NamedTuple):
    """A question with the answer that is annotated: a span, and its text; none if start is None."""

    id: str
    context: str
    question: str
    start: int | None
    text: str = ""

    @property
    def end(self) -> int:
        return (self.start or 0) + len(self.text)


def questions(prefix: Callable[[int], str] = lambda number: "") -> list[Asked]:
    """Two questions about each of 100 contexts, in which each answer's text occurs twice."""
    asked = []
    for number in range(100):
        name, place = NAMES[number % 8], f"Office{number}"
        context = (
            f"{prefix(number)}{name} opened ticket {number} in {place}.\nThe ticket of {place} was "
            f"closed by {name} on day {number}."
        )
        for kind, text in (("Who closed it?", name), ("Which office closed it?", place)):
            asked.append(Asked(f"{number}-{kind[:3]}", context, kind, context.rindex(text), text))
    return asked


def utf16(asked: Asked) -> Asked:
    """The question with its start in UTF-16 code units."""
    start = len(asked.context[: asked.start].encode("utf-16-le")) // 2
    return asked._replace(start=start)


def _answers(asked: Asked) -> list[dict[str, Any]]:
    return [] if asked.start is None else [{"text": asked.text, "answer_start": asked.start}]


def _qa(asked: Asked, **more: Any) -> dict[str, Any]:
    impossible = asked.start is None
    fields = {"id": asked.id, "question": asked.question, "is_impossible": impossible}
    return {**fields, "answers": _answers(asked), **more}


def squad(asked: Iterable[Asked], **more: Any) -> Any:
    return {
        "data": [{"title": q.id, "paragraphs": [{"context": q.context, "qas": [_qa(q, **more)]}]}
                 for q in asked]
    }  # fmt: skip


def quac(asked: Iterable[Asked]) -> Any:
    marked = []
    for q in asked:
        context = f"{q.context} CANNOTANSWER"
        start = len(q.context) + 1 if q.start is None else q.start
        marked.append(q._replace(context=context, start=start, text=q.text or "CANNOTANSWER"))
    return squad(marked, followup="n", yesno="x", is_impossible=None)


def haystack(asked: Iterable[Asked]) -> Any:
    tree = squad(asked)
    for article in tree["data"]:
        (question,) = article["paragraphs"][0]["qas"]
        for answer in question["answers"]:
            answer["answer_category"] = "SHORT"
        if not question["answers"]:
            given = {"text": "", "answer_start": 0, "answer_category": "NOT_GIVEN"}
            question |= {"answers": [given], "is_impossible": False}
    return tree


def simpletransformers(asked: Iterable[Asked]) -> Any:
    return [{"context": q.context, "qas": [_qa(q)]} for q in asked]


def rows(asked: Iterable[Asked]) -> Any:
    return [
        {"id": q.id, "context": q.context, "question": q.question,
         "answers": {"text": [a["text"] for a in _answers(q)],
                     "answer_start": [a["answer_start"] for a in _answers(q)]}}
        for q in asked
    ]  # fmt: skip


def run_qa(asked: Iterable[Asked]) -> Any:
    return {"version": "0.1", "data": rows(asked)}


def mrqa(asked: Iterable[Asked]) -> Any:
    return [{"header": {"dataset": "made"}}] + [
        {"id": "", "context": q.context, "qas": [
            {"qid": q.id, "question": q.question, "detected_answers": [
                {"text": q.text, "char_spans": [[q.start, q.end - 1]]}]}]}
        for q in asked if q.start is not None
    ]  # fmt: skip


def _task(q: Asked, text: bool, **annotation: Any) -> Any:
    value = {"start": q.start, "end": q.end, "labels": ["Answer"]} | (
        {"text": q.text} if text else {}
    )
    result = [] if q.start is None else [{"type": "labels", "value": value}]
    data = {"id": q.id, "text": q.context, "question": q.question}
    return {"id": 1, "data": data, "annotations": [{"result": result, **annotation}]}


def label_studio(asked: Iterable[Asked]) -> Any:
    return [_task(q, text=True, was_cancelled=False) for q in asked]


def label_studio_without_text(asked: Iterable[Asked]) -> Any:
    return [_task(q, text=False) for q in asked]


def label_studio_min(asked: Iterable[Asked]) -> Any:
    return [
        {"id": 7, "annotation_id": number, "text": q.context, "question": q.question}
        | (
            {}
            if q.start is None
            else {"answer": [{"start": q.start, "end": q.end, "labels": ["A"]}]}
        )
        for number, q in enumerate(asked)
    ]


def prodigy(asked: Iterable[Asked]) -> Any:
    return [
        {"text": q.context, "question": q.question, "answer": "accept",
         "spans": [] if q.start is None else [{"start": q.start, "end": q.end, "label": "A"}]}
        for q in asked
    ]  # fmt: skip


def doccano(asked: Iterable[Asked]) -> Any:
    return [
        {"id": number, "text": q.context, "question": q.question,
         "label": [] if q.start is None else [[q.start, q.end, "A"]]}
        for number, q in enumerate(asked)
    ]  # fmt: skip


def coqa(asked: Iterable[Asked]) -> Any:
    return {"data": [
        {"id": q.id, "story": q.context, "questions": [{"input_text": q.question, "turn_id": 1}],
         "answers": [
             {"turn_id": 1, "span_start": -1, "span_end": -1, "span_text": "unknown",
              "input_text": "unknown"} if q.start is None else
             {"turn_id": 1, "span_start": q.start, "span_end": q.end, "span_text": q.text,
              "input_text": f"by {q.text}"}]}
        for q in asked
    ]}  # fmt: skip


def newsqa(asked: Iterable[Asked]) -> Any:
    return {"data": [
        {"storyId": q.id, "text": q.context, "questions": [
            {"q": q.question, "consensus": {"noAnswer": True} if q.start is None else
             {"s": q.start, "e": q.end + 1}}]}
        for q in asked
    ]}  # fmt: skip


def _borders(text: str, start: int, end: int) -> dict[str, int]:
    """The bytes before a span and before its end; -1 if it is none."""
    first, last = (len(text[:place].encode()) if start >= 0 else -1 for place in (start, end))
    return {"plaintext_start_byte": first, "plaintext_end_byte": last}


def tydi(asked: Iterable[Asked]) -> Any:
    """Each context is the second passage of an article."""
    lines = []
    for q in asked:
        text, first = f"Été.\n{q.context}\nFin.", len("Été.\n")
        answer = (-1, -1) if q.start is None else (first + q.start, first + q.end)
        passages = [_borders(text, 0, first - 1), _borders(text, first, first + len(q.context))]
        marked = {"candidate_index": 1}, _borders(text, *answer)
        names = ("passage_answer", "minimal_answer")
        lines.append({
            "example_id": q.id, "document_title": "Offices", "document_plaintext": text,
            "question_text": q.question, "passage_answer_candidates": passages,
            "annotations": [dict(zip(names, marked, strict=True))],
        })  # fmt: skip
    return lines


def tydi_in_columns(asked: Iterable[Asked]) -> Any:
    """As on Hugging Face."""
    lines = tydi(asked)
    for line in lines:
        passages, (annotation,) = line["passage_answer_candidates"], line["annotations"]
        names = ("plaintext_start_byte", "plaintext_end_byte")
        line["passage_answer_candidates"] = {n: [p[n] for p in passages] for n in names}
        start, end = (annotation["minimal_answer"][name] for name in names)
        line["annotations"] = {
            "passage_answer_candidate_index": [1],
            "minimal_answers_start_byte": [start], "minimal_answers_end_byte": [end],
        }  # fmt: skip
    return lines


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def as_lines(values: Iterable[Any]) -> bytes:
    return b"".join(as_json(value) + b"\n" for value in values)


# The name that the log has, by the kind of file.
FORMATS: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], bytes]]] = {
    "squad": ("SQuAD JSON", squad, as_json),
    "quac": ("QuAC JSON", quac, as_json),
    "haystack": ("Haystack's SQuAD JSON", haystack, as_json),
    "simpletransformers": ("simpletransformers' JSON", simpletransformers, as_json),
    "rows": ("rows", rows, as_json),
    "rows-lines": ("rows", rows, as_lines),
    "run-qa": ("rows", run_qa, as_json),
    "mrqa": ("MRQA JSON Lines", mrqa, as_lines),
    "label-studio": ("Label Studio JSON", label_studio, as_json),
    "label-studio-without-text": ("Label Studio JSON", label_studio_without_text, as_json),
    "label-studio-min": ("Label Studio JSON-MIN", label_studio_min, as_json),
    "prodigy": ("Prodigy JSON Lines", prodigy, as_lines),
    "doccano": ("doccano JSON Lines", doccano, as_lines),
    "coqa": ("CoQA JSON", coqa, as_json),
    "newsqa": ("NewsQA JSON", newsqa, as_json),
    "tydi": ("TyDi QA's primary task", tydi, as_lines),
    "tydi-columns": ("TyDi QA's primary task", tydi_in_columns, as_lines),
}
WITHOUT_TEXT = ("label-studio-without-text", "label-studio-min", "prodigy", "doccano")
