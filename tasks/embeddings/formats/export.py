"""Publishes a trained set to a folder, and exports it to the formats of other tools.

gensim reads fastText's .bin with `load_facebook_vectors` and all other exports with
`KeyedVectors.load_word2vec_format` (GloVe's with `no_header=True`). gensim's own format is a
pickle, and is not written.
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
    """Check that the sets of a method can be exported to all of these formats.

    Raises:
        UserError: fastText's .bin is requested, and the method learns no n-grams.
    """
    if "fasttext-binary" in exports and method != "fasttext":
        raise UserError(
            f"exports holds fasttext-binary, which takes n-grams, and {method} learns none: set "
            "method to fasttext, or export word2vec-binary."
        )


def publish_vectors(made: Path, folder: Path, exports: Sequence[ExportFormat]) -> list[Path]:
    """Copy a trained set to `folder`, and write the exports beside it.

    All files are written before those of an earlier set are removed. Returns the new files: the
    set's own first, then the exports.
    """
    exports = list(dict.fromkeys(exports))
    filled = folder / ".part"
    shutil.rmtree(filled, ignore_errors=True)  # left by a killed process
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
    """The words that other tools can read: they end a word at white space or NUL."""
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
    """Move an earlier set's files out and the new ones in; undo all moves on failure.

    The vectors are moved out first and in last. A process that is killed in between therefore
    leaves no set, and never vectors without n-grams or with those of another set.
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
    """Write words and vectors: a header line (except for GloVe), then a word and its vector a row.

    Text formats have enough digits to restore the same float32. fastText's .bin has a different
    layout (see `write_fasttext`).
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
