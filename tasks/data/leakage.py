"""Data leakage checks: contexts shared by training and evaluation, ids shared by two files."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

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
        text = contexts.text(row)
        raise UserError(
            f"{len(shared)} of {sum(map(len, training))} training contexts also occur in the "
            f"evaluation set, e.g. context {row + 1} of {contexts.portion.name}: "
            f'"{text if len(text) <= 60 else text[:57] + "…"}". Evaluate on other articles, or '
            'leave these contexts out of training (--data.overlap "leave out").'
        )


def refuse_shared_ids(portions: Sequence[Portion]) -> None:
    """Raises UserError if two files share a question id; the message names both."""
    if len(portions) < 2:
        return
    digests = [_id_digests(portion) for portion in portions]
    unique, counts = np.unique(np.concatenate(digests), return_counts=True)
    shared = unique[counts > 1]
    if len(shared):
        owners = [p for p, ids in zip(portions, digests, strict=True) if shared[0] in ids]
        first, second = owners[:2]
        raise UserError(
            f"question id {_id_of(first, shared[0])!r} occurs in both {first.name} and "
            f"{second.name} ({len(shared)} shared ids in total). Give each question a unique id, "
            "or list each file only once."
        )


def _ids(portion: Portion) -> Iterable[str]:
    for batch in batches(portion.folder / "questions.parquet", ["id"]):
        yield from batch.column("id").to_pylist()


def _digest(text: str) -> bytes:
    """An 8-byte digest, long enough to distinguish millions of ids."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()


def _id_digests(portion: Portion) -> npt.NDArray[np.uint64]:
    return np.frombuffer(b"".join(map(_digest, _ids(portion))), dtype=np.uint64)


def _id_of(portion: Portion, digest: np.uint64) -> str:
    return next(text for text in _ids(portion) if _digest(text) == digest.tobytes())
