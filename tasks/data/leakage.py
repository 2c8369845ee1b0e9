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
        found
        for split in splits
        for batch in batches(split / "contexts.parquet", ["text"])
        for text in batch.column("text").to_pylist()
        if (found := fingerprint(text))
    }


def refuse_overlap(training: Sequence[Contexts], scored: set[bytes]) -> None:
    """Raises UserError if training contexts also occur in the evaluation set.

    Contexts that differ only in white space and case are equal. The message states how many
    contexts overlap and shows an example.
    """
    shared = [
        (contexts, row)
        for contexts in training
        for row, found in enumerate(contexts.fingerprints)
        if found in scored
    ]
    if shared:
        contexts, row = shared[0]
        text = contexts.text(row)
        raise UserError(
            f"{len(shared)} of {sum(map(len, training))} training contexts also stand in the set "
            f"to score on, such as context {row + 1} of {contexts.portion.name}, "
            f'"{text if len(text) <= 60 else text[:57] + "…"}"; score on other articles, or leave '
            'these contexts out of training (--data.overlap "leave out").'
        )


def refuse_shared_ids(portions: Sequence[Portion]) -> None:
    """Raises UserError if two files share a question id; the message names both."""
    if len(portions) < 2:
        return
    digests = [_id_digests(portion) for portion in portions]
    found, counts = np.unique(np.concatenate(digests), return_counts=True)
    twice = found[counts > 1]
    if len(twice):
        first, second = [p for p, own in zip(portions, digests, strict=True) if twice[0] in own][:2]
        raise UserError(
            f"question id {_id_of(first, twice[0])!r} stands in {first.name} and in {second.name} "
            f"(such ids in all: {len(twice)}); give each question an id of its own, or name each "
            "file once."
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
