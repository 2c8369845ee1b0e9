"""Writes the answers of `answer_files` where a user wants them, and tasks for Label Studio."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem

from infra.errors import UserError, first_line
from infra.files import user_path
from infra.storage.store import local_store
from tasks.datasets.paths import is_uri


def write_answers(answers: Path, output: str) -> None:
    """Write answers.parquet to a file or an address, in the format that the name ends in: Parquet,
    JSON Lines, or SQuAD's predictions, an object with the answer to each id.

    Raises:
        UserError: the output can't be written to, or SQuAD's predictions can't hold the answers,
            because two questions have the same id.
    """
    if output.endswith(".parquet"):
        write_output(output, [answers.read_bytes()])
    elif output.endswith(".jsonl"):
        batches = pq.ParquetFile(answers).iter_batches(batch_size=1024)
        write_output(output, (_json(row, None) for batch in batches for row in batch.to_pylist()))
    else:
        write_output(output, [_json(_squad_predictions(answers, output))])


def write_uncertain(answers: Path, count: int, output: str) -> None:
    """Write the `count` questions with the lowest probability of their answer, lowest first, as
    tasks of Label Studio with the answer as the prediction. Questions that can't be answered are
    left out.

    The names of the labels are those of the template in docs/operations.md.

    Raises:
        UserError: the output can't be written to.
    """
    table = pq.read_table(answers, filters=pc.field("error") == "").sort_by("probability")
    write_output(output, [_json([_task(row) for row in table[:count].to_pylist()])])


def _task(row: dict[str, Any]) -> dict[str, Any]:
    span = {"start": row["start"], "end": row["end"], "text": row["answer"], "labels": ["Answer"]}
    found = {"id": "answer", "from_name": "answer", "to_name": "text", "type": "labels"}
    return {
        "data": {"id": row["id"], "question": row["question"], "text": row["context"]},
        "predictions": [
            {
                "model_version": f"{row['model']} {row['version']}".strip(),
                "score": row["probability"],
                "result": [{**found, "value": span}] if row["start"] >= 0 else [],
            }
        ],
    }


def _squad_predictions(answers: Path, output: str) -> dict[str, str]:
    table: Any = pq.read_table(answers, columns=["id", "answer"])
    predictions = dict(zip(table["id"].to_pylist(), table["answer"].to_pylist(), strict=True))
    if len(predictions) < table.num_rows:
        raise UserError(
            f"{output} can't hold all answers: several questions have the same id. "
            "Write a .jsonl or .parquet file instead."
        )
    return predictions


def _json(value: Any, indent: int | None = 1) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=indent).encode() + b"\n"


def write_output(output: str, content: Iterable[bytes]) -> None:
    """Write blocks of bytes to a file or an address.

    Raises:
        UserError: the output can't be written to.
    """
    try:
        if is_uri(output):
            files, path = FileSystem.from_uri(output)
        else:
            local = user_path(output).absolute()
            files, path = local_store(local.parent).files, str(local)
        with files.open_output_stream(path) as file:
            for block in content:
                file.write(block)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(
            f"{output} can't be written to: {first_line(error)}. Check the address and the "
            "permissions."
        ) from error
