"""Keeps the answers that people confirmed or corrected, to train on."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from tasks.datasets.feedback import FEEDBACK
from tasks.serving.schemas import Feedback

LARGEST_FILE = 1 << 30  # bytes


def keep(folder: Path, feedback: Feedback) -> None:
    """Append the question and its answer to feedback.jsonl of the folder, in the format that
    `--data.mix` and `--data.dataset` read, with the time. Several processes may do so at once.

    Raises:
        OSError: the file has reached its largest size, or can't be written.
    """
    texts = [feedback.answer] if feedback.answer else []
    row = {
        "id": f"{FEEDBACK}{uuid4()}",
        **feedback.model_dump(include={"context", "question", "right", "version"}),
        "answers": {"text": texts, "answer_start": [feedback.start for _ in texts]},
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
    # In one write, which the kernel appends as a whole.
    with open(folder / "feedback.jsonl", "ab", buffering=0) as file:
        if os.fstat(file.fileno()).st_size + len(line) > LARGEST_FILE:
            raise OSError(f"{file.name} has reached {LARGEST_FILE:,} bytes; move it away")
        file.write(line)
