"""Refuses contexts and question ids that occur where they must not: twice, or in two files."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from infra.errors import UserError
from tasks.data.ingested import Contexts, Portion, batches, fingerprint


def fingerprints(splits: Iterable[Path]) -> set[bytes]:
    """The fingerprints of all contexts of ingested splits, 16 bytes each."""
    return {
        digest
        for split in splits
        for batch in batches(split / "contexts.parquet", ["text"])
        for text in batch.column("text").to_pylist()
        if (digest := fingerprint(text))
    }


def refuse_overlap(training: Sequence[Contexts], evaluation: set[bytes]) -> None:
    """Raises UserError if training contexts also occur in the evaluation set.

    Contexts that differ only in white space and case are equal. The message states how many
    contexts overlap and shows an example.
    """
    shared = [
        (contexts, row)
        for contexts in training
        for row, digest in enumerate(contexts.fingerprints)
        if digest in evaluation
    ]
    if shared:
        contexts, row = shared[0]
        table = pq.read_table(contexts.portion.folder / "contexts.parquet", columns=["text"])
        text = str(table["text"][row])
        raise UserError(
            f"{len(shared)} of {sum(len(contexts.keep) for contexts in training)} training "
            f"contexts also occur in the evaluation set, e.g. context {row + 1} of "
            f'{contexts.portion.name}: "{text if len(text) <= 60 else text[:57] + "…"}". Evaluate '
            'on other articles, or leave these contexts out of training (--data.overlap "leave '
            'out").'
        )


def refuse_repeated_ids(folder: Path) -> None:
    """Raises UserError if two questions of an ingested file share an id; names both places."""
    digests = _id_digests(folder)
    order = np.argsort(digests, kind="stable")
    repeated = order[1:][digests[order[1:]] == digests[order[:-1]]]
    if len(repeated):
        rows = np.flatnonzero(digests == digests[repeated.min()])[:2]
        table = pq.read_table(folder / "questions.parquet", columns=["id", "context_id"])
        first, second = (_place(folder, table["context_id"][row].as_py()) for row in rows)
        raise UserError(
            f'question id "{table["id"][rows[0]]}" occurs twice, in {first} and in {second}. '
            "Give each question a unique id."
        )


def refuse_shared_ids(portions: Sequence[Portion]) -> None:
    """Raises UserError if two files share a question id; the message names both."""
    if len(portions) < 2:
        return
    digests = [_id_digests(portion.folder) for portion in portions]
    unique, counts = np.unique(np.concatenate(digests), return_counts=True)
    shared = unique[counts > 1]
    if len(shared):
        first, second = [file for file, ids in enumerate(digests) if shared[0] in ids][:2]
        row = np.flatnonzero(digests[first] == shared[0])[0]
        table = pq.read_table(portions[first].folder / "questions.parquet", columns=["id"])
        raise UserError(
            f"question id {table['id'][row].as_py()!r} occurs in both {portions[first].name} and "
            f"{portions[second].name} ({len(shared)} shared ids in total). Give each question a "
            "unique id, or list each file only once."
        )


def _id_digests(folder: Path) -> npt.NDArray[np.uint64]:
    """An 8-byte digest of each question's id, long enough to distinguish millions of ids."""
    digests = (
        int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
        for batch in batches(folder / "questions.parquet", ["id"])
        for text in batch.column("id").to_pylist()
    )
    return np.fromiter(digests, dtype=np.uint64)


def _place(folder: Path, context: int) -> str:
    table = pq.read_table(folder / "contexts.parquet", columns=["article", "title"])
    article = table["article"].to_numpy()
    paragraph = context - int(np.searchsorted(article, article[context])) + 1
    return f'article {article[context] + 1} "{table["title"][context]}", paragraph {paragraph}'
