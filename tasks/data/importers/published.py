"""Formats of published datasets: CoQA, DuoRC and NewsQA."""

import re

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
