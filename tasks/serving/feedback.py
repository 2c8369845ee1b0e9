"""Keeps the answers that people confirmed or corrected, to train on."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from infra.errors import UserError

LARGEST_FILE = 1 << 30  # bytes


class FeedbackFile:
    """feedback.jsonl of a folder, in the format that `--data.mix` and `--data.dataset` read."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "feedback.jsonl"

    def append(self, question: str, context: str, answer: str, start: int, **facts: Any) -> None:
        """Append a question with its answer, "" for none, the time and other facts. Several
        processes may append at the same time.

        Raises:
            OSError: the file has reached its largest size, or can't be written.
        """
        answers = {"text": [answer], "answer_start": [start]}
        row = {
            "id": str(uuid4()),
            "context": context,
            "question": question,
            "answers": answers if answer else {"text": [], "answer_start": []},
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            **facts,
        }
        line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
        # In one write, which the kernel appends as a whole.
        with open(self.path, "ab", buffering=0) as file:
            if os.fstat(file.fileno()).st_size + len(line) > LARGEST_FILE:
                raise OSError(f"{self.path} has reached {LARGEST_FILE:,} bytes. Move it away")
            file.write(line)


def find_answer(context: str, answer: str, start: int | None) -> int:
    """The position of an answer in its context; -1 for "", no answer.

    Raises:
        UserError: the answer is not in the context, not at `start`, or several times there.
    """
    if not answer:
        return -1
    if start is not None and start >= 0 and context.startswith(answer, start):
        return start
    if start is not None or answer not in context:
        where = "in the context" if start is None else "at `start` of the context"
        raise UserError(f"The answer is not {where}. Copy it from there.")
    if context.find(answer) != context.rfind(answer):
        raise UserError("The answer is several times in the context. Add the `start` of one.")
    return context.find(answer)
