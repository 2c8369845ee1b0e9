"""Keeps the answers that people confirmed or corrected, to train on."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from infra.errors import UserError
from tasks.datasets.feedback import FEEDBACK
from tasks.serving.schemas import Feedback

LARGEST_FILE = 1 << 30  # bytes


def keep(folder: Path, feedback: Feedback) -> None:
    """Append the question and its answer to feedback.jsonl of the folder, in the format that
    `--data.mix` and `--data.dataset` read, with the time. Several processes may do so at once.

    Raises:
        UserError: the answer is not in the context, or not at its `start`, or several times there.
        OSError: the file has reached its largest size, or can't be written.
    """
    texts = [feedback.answer] if feedback.answer else []
    row = {
        "id": f"{FEEDBACK}{uuid4()}",
        "context": feedback.context,
        "question": feedback.question,
        "answers": {"text": texts, "answer_start": [_start(feedback) for _ in texts]},
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        **feedback.model_dump(include={"right", "version"}),
    }
    line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
    # In one write, which the kernel appends as a whole.
    with open(folder / "feedback.jsonl", "ab", buffering=0) as file:
        if os.fstat(file.fileno()).st_size + len(line) > LARGEST_FILE:
            raise OSError(f"{file.name} has reached {LARGEST_FILE:,} bytes; move it away")
        file.write(line)


def _start(feedback: Feedback) -> int:
    """The position of the answer in its context; raises UserError."""
    context, answer, start = feedback.context, feedback.answer, feedback.start
    if start is None:
        if context.count(answer) > 1:
            raise UserError("The answer is several times in the context. Add the `start` of one.")
        start = context.find(answer)
    if start < 0 or not context.startswith(answer, start):
        raise UserError("The answer is not in the context, or not at `start`. Copy it from there.")
    return start
