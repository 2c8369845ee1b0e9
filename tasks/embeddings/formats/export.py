"""Publishes a trained set or language model to a folder, and exports sets for other tools.

gensim reads fastText's .bin with `load_facebook_vectors` and all other exports with
`KeyedVectors.load_word2vec_format` (GloVe's with `no_header=True`). gensim's own format is a
pickle, and is not written.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import compress
from pathlib import Path
from typing import Literal

import numpy as np

from infra.artifacts.locks import exclusive_lock, lock_file
from infra.errors import UserError
from infra.run_logger import logger
from tasks.embeddings.formats.fasttext_format import write_fasttext
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import BILM, VECTORS
from tasks.embeddings.formats.word_vectors import SUBWORDS, WordSet

ExportFormat = Literal["glove", "word2vec", "word2vec-binary", "fasttext-binary"]
FILES: dict[ExportFormat, str] = {
    "glove": "glove.txt",
    "word2vec": "word2vec.txt",
    "word2vec-binary": "word2vec.bin",
    "fasttext-binary": "fasttext.bin",
}


def require_exportable(exports: Sequence[ExportFormat], method: str) -> None:
    """Check that the sets of a method can be exported to all of these formats.

    Raises:
        UserError: fastText's .bin is requested, and the method learns no n-grams.
    """
    if "fasttext-binary" in exports and method != "fasttext":
        raise UserError(
            f"Export format 'fasttext-binary' needs n-grams, and method {method!r} learns none. "
            "Set method to fasttext, or export word2vec-binary."
        )


def publish_vectors(trained: Path, folder: Path, exports: Sequence[ExportFormat]) -> list[Path]:
    """Put a trained set into `folder`, and write the exports beside it.

    The set's files are hard links to those of `trained` where the file system has them, so that
    they take their space once.

    All files are written before those of an earlier set or language model are removed. Returns the
    new files: the set's own first, then the exports.
    """
    published = [name for name in (VECTORS, SUBWORDS) if (trained / name).exists()]
    return _publish(trained, folder, published, list(dict.fromkeys(exports)))


def publish_bilm(trained: Path, folder: Path) -> Path:
    """Put a trained language model into `folder` as `publish_vectors` does, and return its file."""
    (file,) = _publish(trained, folder, [BILM], [])
    return file


def _publish(
    trained: Path, folder: Path, names: Sequence[str], exports: Sequence[ExportFormat]
) -> list[Path]:
    """Put files of `trained` and the exports into `folder`, in place of what it has published."""
    new = [*names, *(FILES[file_format] for file_format in exports)]
    with _staging(folder) as staging:
        for name in names:
            _link(trained / name, staging / name)
        if exports:
            word_set = _exportable(load_vectors(trained / VECTORS))
            for file_format in exports:
                export(staging / FILES[file_format], word_set, file_format)
        _replace_set(folder, staging, new)
    return [folder / name for name in new]


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """Yield an empty folder in `folder`, to one run at a time, and remove it afterwards."""
    staging = folder / ".part"
    message = f"Another run is publishing to {folder}; waiting for it to finish."
    with exclusive_lock(lock_file(folder, "publish"), message):
        shutil.rmtree(staging, ignore_errors=True)  # left by a killed process
        staging.mkdir(parents=True)
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    """Link a file, or copy it to a file system that can't hold the link."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def _exportable(word_set: WordSet) -> WordSet:
    """The words that other tools can read: they end a word at white space or NUL."""
    exportable = [word.replace("\0", " ").split() == [word] for word in word_set.words]
    if all(exportable):
        return word_set
    logger().info(
        f"Omitted {exportable.count(False):,} words from the exports because they contain white "
        f"space or NUL, for example {word_set.words[exportable.index(False)]!r}."
    )
    words = list(compress(word_set.words, exportable))
    return WordSet(words, word_set.vectors[exportable], word_set.subwords)


def _replace_set(folder: Path, staging: Path, names: Sequence[str]) -> None:
    """Move the files of an earlier set or model out and the new ones in; undo all on failure.

    The vectors are moved out first and in last. A process that is killed in between therefore
    leaves no set, and never vectors without n-grams or with those of another set.
    """
    earlier = staging / "earlier"
    earlier.mkdir()
    with ExitStack() as rollback:
        for name in (VECTORS, SUBWORDS, BILM, *FILES.values()):
            if (folder / name).exists():
                _move(folder / name, earlier / name, rollback)
        for name in reversed(names):
            _move(staging / name, folder / name, rollback)
        rollback.pop_all()


def _move(source: Path, target: Path, rollback: ExitStack) -> None:
    os.replace(source, target)
    rollback.callback(os.replace, target, source)


def export(file: Path, word_set: WordSet, file_format: ExportFormat) -> None:
    """Write words and vectors with gensim.

    Text formats have enough digits to restore the same float32.
    """
    from gensim.models import KeyedVectors

    if file_format == "fasttext-binary":
        write_fasttext(file, word_set)
        return
    keyed = KeyedVectors(word_set.vectors.shape[1])
    # Not by `add_vectors`, which copies.
    keyed.index_to_key, keyed.key_to_index = word_set.words, word_set.rows
    keyed.vectors = word_set.vectors
    keyed.expandos["count"] = np.arange(len(word_set.words), 0, -1)  # by which gensim sorts
    binary, header = file_format == "word2vec-binary", file_format != "glove"
    keyed.save_word2vec_format(str(file), binary=binary, write_header=header)
