"""Formats of published datasets: CoQA, DuoRC, NewsQA and TyDi QA."""

import re
from typing import Any

from tasks.data.importers.records import Counts, Record, Records, first_field, span


def coqa(record: Record, counts: Counts) -> Records:
    """A dialog: a question's answer is the span that the annotator has marked for it."""
    answers = {answer["turn_id"]: answer for answer in record["answers"]}
    for question in record["questions"]:
        row = {"context": record["story"], "question": question["input_text"]}
        row |= {"id": f"{record['id']}-{question['turn_id']}", "title": record["id"], "answers": []}
        answer = answers.get(question["turn_id"])
        if answer is None:
            row["left_out"] = "without annotation"
        elif answer["span_start"] < 0 or answer["input_text"].strip().lower() == "unknown":
            row["is_impossible"] = True
        elif answer["input_text"].strip(" .").lower() in ("yes", "no"):
            row["left_out"] = "left out (yes or no)"
        else:
            row["answers"] = [span(answer["span_start"], answer["span_end"], answer["span_text"])]
        yield row


def duorc(record: Record, counts: Counts) -> Records:
    """A plot: answers have no offsets, so the first occurrence of each counts."""
    plot = record["plot"]
    for question in record["qa"]:
        found = [span(plot.find(text), None, text) for text in question["answers"] if text in plot]
        row = {"id": question["id"], "title": record["title"], "context": plot}
        row |= {"question": question["question"], "answers": found}
        if question["no_answer"]:
            row |= {"answers": [], "is_impossible": True}
        elif not found:
            row["left_out"] = "left out (the text does not have the answer)"
        yield row


def newsqa(record: Record, counts: Counts) -> Records:
    """A story, of which each question has the answer that the annotators agreed on."""
    for question in record["questions"]:
        row = {"title": record["storyId"], "context": record["text"], "question": question["q"]}
        consensus = question.get("consensus", {})
        row["answers"] = []
        if "s" in consensus:
            row["answers"] = [_stripped(record["text"], consensus["s"], consensus["e"])]
        elif "noAnswer" in consensus:
            row["is_impossible"] = True
        else:
            row["left_out"] = "left out (bad question)" if consensus else "without annotation"
        yield row


def newsqa_table(record: Record, counts: Counts) -> Records:
    """A question, with the ranges that each annotator has marked: "294:297|None"."""
    text = first_field(record, "story_text", "context", "text")
    words = [match.span() for match in re.finditer(r"\S+", text)]
    if characters := record.get("answer_char_ranges"):
        ranges = _ranges(characters)
    else:
        ranges = [
            (words[first][0], words[last - 1][1])
            for first, last in _ranges(record["answer_token_ranges"])
        ]
    yield {
        "title": record["story_id"],
        "context": text,
        "question": record["question"],
        "answers": [_stripped(text, start, end) for start, end in ranges],
        "is_impossible": not ranges,
    }


def _ranges(text: str) -> list[tuple[int, int]]:
    return [(int(first), int(last)) for first, last in re.findall(r"(\d+):(\d+)", text)]


def _stripped(text: str, start: int, end: int) -> Record:
    """A span without the space that follows it."""
    return span(start, end, text[start:end].rstrip())


def tydi(record: Record, counts: Counts) -> Records:
    """TyDi QA's primary task: an article, of which the passage with the answer is the context.

    Its offsets count bytes.
    """
    article = record["document_plaintext"].encode()
    row = {"id": record.get("example_id"), "title": record["document_title"]}
    row |= {"question": record["question_text"], "context": record["document_plaintext"]}
    passages, marked = _tydi_spans(record)
    marked = [(passage, *answer) for passage, *answer in marked if min(passage, *answer) >= 0]
    if not marked:
        yield row | {"answers": [], "left_out": "left out (no short answer in a passage)"}
        return
    chosen = marked[0][0]
    first, last = passages[chosen]
    answers = [
        span(len(article[first:start].decode()), None, article[start:end].decode())
        for passage, start, end in marked
        if passage == chosen
    ]
    yield row | {"context": article[first:last].decode(), "answers": answers}


def _tydi_spans(record: Record) -> tuple[list[Any], list[Any]]:
    """The first and last byte of each passage, and the passage and the bytes that each annotator
    has marked: both as the official files have them, or in columns, as on Hugging Face."""
    passages, annotations = record["passage_answer_candidates"], record["annotations"]
    if isinstance(annotations, dict):
        marked = [annotations["passage_answer_candidate_index"]]
        marked += [annotations[f"minimal_answers_{end}_byte"] for end in ("start", "end")]
        borders = (passages["plaintext_start_byte"], passages["plaintext_end_byte"])
        return list(zip(*borders, strict=True)), list(zip(*marked, strict=True))
    return [_borders(passage) for passage in passages], [
        (annotation["passage_answer"]["candidate_index"], *_borders(annotation["minimal_answer"]))
        for annotation in annotations
    ]


def _borders(part: Record) -> tuple[int, int]:
    return part["plaintext_start_byte"], part["plaintext_end_byte"]
