"""A trained set in a place of its own, and in the formats that other tools read.

gensim reads all of them by `KeyedVectors.load_word2vec_format` (GloVe's with `no_header=True`), and
fastText's .bin by `load_facebook_vectors`; its own format is a pickle, and is not written.
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Literal

import numpy as np

from infra.errors import UserError
from infra.run_logger import logger
from tasks.embeddings.formats.fasttext_format import write_fasttext
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.store import VECTORS
from tasks.embeddings.formats.word_vectors import SUBWORDS, WordSet

ExportFormat = Literal["glove", "word2vec", "word2vec-binary", "fasttext-binary"]
FILES: dict[ExportFormat, str] = {
    "glove": "glove.txt",
    "word2vec": "word2vec.txt",
    "word2vec-binary": "word2vec.bin",
    "fasttext-binary": "fasttext.bin",
}


def require_suited(exports: Sequence[ExportFormat], method: str) -> None:
    """Refuse exports that the sets of a method can't be written as.

    Raises:
        UserError: fastText's .bin is asked for, and there will be no n-grams.
    """
    if "fasttext-binary" in exports and method != "fasttext":
        raise UserError(
            f"exports holds fasttext-binary, which takes n-grams, and {method} learns none: set "
            "method to fasttext, or export word2vec-binary."
        )


def publish_vectors(made: Path, folder: Path, exports: Sequence[ExportFormat]) -> list[Path]:
    """Copy a trained set to `folder`, and write the exports beside it; the files, the set first.

    All of it is written before files of an earlier set are touched, which are then removed.
    """
    exports = list(dict.fromkeys(exports))
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
        chosen = _readable(load_vectors(str(made / VECTORS)))
        for form in exports:
            with (folder / FILES[form]).open("wb") as out:
                export(out, chosen, form)
    return [*copied, *(FILES[form] for form in exports)]


def _readable(chosen: WordSet) -> WordSet:
    """The words that other tools can read: to them, a word ends where white space or NUL is."""
    keep = [word.replace("\0", " ").split() == [word] for word in chosen.words]
    if all(keep):
        return chosen
    logger().info(
        f"{keep.count(False):,} words are left out of the exports, as they hold white space or "
        f"NUL, such as {chosen.words[keep.index(False)]!r}."
    )
    rows = [row for row, kept in enumerate(keep) if kept]
    words = [chosen.words[row] for row in rows]
    return WordSet(words, chosen.vectors[rows], chosen.subwords)


def _replace_set(folder: Path, filled: Path, names: Sequence[str]) -> None:
    """Move an earlier set's files out and the new ones in; all of them back if that fails.

    The vectors go first and come last: whoever is killed between leaves no set, and never vectors
    with the n-grams of others, or with none of their own.
    """
    earlier = filled / "earlier"
    earlier.mkdir()
    with ExitStack() as undoing:
        for name in (VECTORS, SUBWORDS, *FILES.values()):
            if (folder / name).exists():
                _move(folder / name, earlier / name, undoing)
        for name in reversed(names):
            _move(filled / name, folder / name, undoing)
        undoing.pop_all()


def _move(source: Path, target: Path, undoing: ExitStack) -> None:
    os.replace(source, target)
    undoing.callback(os.replace, target, source)


def export(out: IO[bytes], chosen: WordSet, form: ExportFormat) -> None:
    """Write words and vectors: a header line but for GloVe, then a word and its numbers a row.

    Text has as many digits as give back the same float32; fastText's .bin is laid out otherwise.
    """
    if form == "fasttext-binary":
        write_fasttext(out, chosen)
        return
    if form != "glove":
        out.write(f"{len(chosen.words)} {chosen.vectors.shape[1]}\n".encode())
    for word, vector in zip(chosen.words, chosen.vectors, strict=True):
        if form == "word2vec-binary":
            out.write(word.encode() + b" " + vector.astype("<f4").tobytes())
        else:
            numbers = " ".join(np.format_float_positional(x, trim="0") for x in vector)
            out.write(f"{word} {numbers}\n".encode())
