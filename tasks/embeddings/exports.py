"""A trained set in a place of its own, and in the formats that other tools read.

gensim reads all of them by `KeyedVectors.load_word2vec_format` (GloVe's with `no_header=True`);
its own format is a pickle, and is not written.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

import numpy as np

from tasks.embeddings.wordset import SUBWORDS, WordSet
from tasks.vectors import VECTORS, load_vectors

ExportFormat = Literal["glove", "word2vec", "word2vec-binary"]
FILES: dict[ExportFormat, str] = {
    "glove": "glove.txt",
    "word2vec": "word2vec.txt",
    "word2vec-binary": "word2vec.bin",
}


def publish_vectors(made: Path, folder: Path, exports: Sequence[ExportFormat]) -> list[Path]:
    """Copy a trained set to `folder`, and write the exports beside it; the files, the set first.

    Each file appears whole or not at all; others of an earlier set are removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (SUBWORDS, *FILES.values()):
        (folder / stale).unlink(missing_ok=True)
    copied = [name for name in (VECTORS, SUBWORDS) if (made / name).exists()]
    for name in copied:
        with _whole(folder / name) as out, (made / name).open("rb") as file:
            shutil.copyfileobj(file, out)
    if exports:
        chosen = load_vectors(str(made / VECTORS))
        for form in exports:
            with _whole(folder / FILES[form]) as out:
                export(out, chosen, form)
    return [folder / name for name in (*copied, *(FILES[form] for form in exports))]


@contextmanager
def _whole(file: Path) -> Iterator[IO[bytes]]:
    """A file that gets its name when all of it has been written."""
    temporary = file.with_name(f".{file.name}.part")
    with temporary.open("wb") as out:
        yield out
    os.replace(temporary, file)


def export(out: IO[bytes], chosen: WordSet, form: ExportFormat) -> None:
    """Write words and vectors: a header line but for GloVe, then a word and its numbers a row.

    Text has as many digits as give back the same float32.
    """
    if form != "glove":
        out.write(f"{len(chosen.words)} {chosen.vectors.shape[1]}\n".encode())
    for word, vector in zip(chosen.words, chosen.vectors, strict=True):
        if form == "word2vec-binary":
            out.write(word.encode() + b" " + vector.astype("<f4").tobytes())
        else:
            numbers = " ".join(np.format_float_positional(x, trim="0") for x in vector)
            out.write(f"{word} {numbers}\n".encode())
