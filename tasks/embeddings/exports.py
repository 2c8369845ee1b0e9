"""A trained set in a place of its own, and in the formats that other tools read.

gensim reads all of them by `KeyedVectors.load_word2vec_format` (GloVe's with `no_header=True`);
its own format is a pickle, and is not written.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Literal

import numpy as np

from tasks.embeddings.wordset import WordSet
from tasks.inputs import SUBWORDS
from tasks.vectors import VECTORS, load_vectors

ExportFormat = Literal["glove", "word2vec", "word2vec-binary"]
FILES: dict[ExportFormat, str] = {
    "glove": "glove.txt",
    "word2vec": "word2vec.txt",
    "word2vec-binary": "word2vec.bin",
}


def publish_vectors(made: Path, folder: Path, exports: Sequence[ExportFormat]) -> list[Path]:
    """Copy a trained set to `folder`, and write the exports beside it; the files, the set first.

    All of it is written before files of an earlier set are touched, which are then removed.
    """
    filled = folder / ".part"
    shutil.rmtree(filled, ignore_errors=True)  # of one that was killed
    filled.mkdir(parents=True)
    try:
        names = _fill(filled, made, exports)
        _replace_set(folder, filled, names)
    finally:
        shutil.rmtree(filled)
    return [folder / name for name in names]


def _fill(folder: Path, made: Path, exports: Sequence[ExportFormat]) -> list[str]:
    copied = [name for name in (VECTORS, SUBWORDS) if (made / name).exists()]
    for name in copied:
        shutil.copyfile(made / name, folder / name)
    if exports:
        chosen = load_vectors(str(made / VECTORS))
        for form in exports:
            with (folder / FILES[form]).open("wb") as out:
                export(out, chosen, form)
    return [*copied, *(FILES[form] for form in exports)]


def _replace_set(folder: Path, filled: Path, names: Sequence[str]) -> None:
    """Move the files in. The vectors go first and come last: whoever is killed between leaves no
    set, and never vectors with the n-grams of others, or with none of their own."""
    for stale in (VECTORS, SUBWORDS, *FILES.values()):
        (folder / stale).unlink(missing_ok=True)
    for name in reversed(names):
        os.replace(filled / name, folder / name)


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
