"""Exports of annotation tools: Label Studio, doccano and Prodigy."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tasks.data.importers.records import Counts, Record, Records, first_field, span

TEXT = ("text", "context", "passage", "document")


def label_studio(record: Record, counts: Counts) -> Records:
    """A task: the spans of all of its annotations that were not cancelled."""
    data = record["data"]
    annotations = record.get("annotations", record.get("completions")) or []
    valid = [annotation for annotation in annotations if not annotation.get("was_cancelled")]
    spans = [
        _labelled(region["value"])
        for annotation in valid
        for region in annotation["result"]
        if "start" in region["value"] and "end" in region["value"]
    ]
    reason = None if valid else "cancelled" if annotations else "without annotation"
    yield from _questions(data, data.get("id", record.get("id")), spans, reason)


def label_studio_min(record: Record, counts: Counts) -> Records:
    """A task with one annotation, so the task's id may repeat."""
    lists = [value for value in record.values() if isinstance(value, list)]
    spans = [
        _labelled(value) for values in lists for value in values if _has(value, "start", "end")
    ]
    yield from _questions(record, f"{record['id']}-{record['annotation_id']}", spans, None)


def prodigy(record: Record, counts: Counts) -> Records:
    """A text with spans, of which only accepted ones count."""
    spans = [_labelled(value) for value in record.get("spans") or ()]
    verdict = record.get("answer", "accept")
    reason = None if verdict == "accept" else f"left out (answer: {verdict})"
    yield from _questions(record, record.get("id"), spans, reason)


def doccano(record: Record, counts: Counts) -> Records:
    """A text with labelled spans; without a question, its label is the question."""
    labels = first_field(record, "label", "labels", "entities", "annotations")
    spans = [
        (str(label["label"]), span(label["start_offset"], label["end_offset"]))
        if isinstance(label, dict)
        else (str(label[2]), span(label[0], label[1]))
        for label in labels
    ]
    text = first_field(record, *TEXT, "data")
    yield from _questions(record | {"text": text}, record.get("id"), spans, None, counts)


def _labelled(value: Record) -> tuple[str, Record]:
    """The label of a span, and the span."""
    label = value.get("label", next(iter(value.get("labels") or ()), ""))
    return str(label), span(value["start"], value["end"], value.get("text"))


def _has(value: Any, *names: str) -> bool:
    return isinstance(value, dict) and all(name in value for name in names)


def _questions(
    data: Record,
    id: Any,
    spans: Iterable[tuple[str, Record]],
    reason: str | None,
    counts: Counts | None = None,
) -> Records:
    """A row for the question about a text; without one, a row for each label, as the question.

    Without spans, the question has no answer. `reason` says why the text is left out, if it is.
    """
    row = {"title": data.get("title"), "context": first_field(data, *TEXT), "answers": []}
    row |= {"left_out": reason} if reason else {}
    if "question" in data:
        answers = [answer for _, answer in spans]
        impossible = not answers and not reason
        yield row | {
            "id": id,
            "question": data["question"],
            "answers": answers,
            "is_impossible": impossible,
        }
        return
    labelled = defaultdict(list)
    for label, answer in spans:
        labelled[label].append(answer)
    for label, answers in labelled.items():
        yield row | {"question": label, "answers": answers}
    if not labelled and counts is not None:
        counts["without a label"] += 1
