"""Reads and writes vectors.parquet, the words and vectors of a set as stages exchange them.

From it, and from a vocabulary, comes the embedding matrix.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from safetensors import SafetensorError

from infra.artifacts.manifest import digest_of, stages_folder
from infra.errors import UserError
from models.arrays import Float32Array, FloatArray
from tasks.embeddings.formats.source import VECTORS, VectorInput, short_name
from tasks.embeddings.formats.word_vectors import SUBWORDS, Subwords, WordSet, in_half_precision
from tasks.text.vocabulary import SPECIAL

# How a set was made: its `method`, and if this pipeline trained it, the training `parameters`, the
# digest of the `corpus`, whether the corpus was lower-cased (`lower_case`), and digest and name of
# the set that the training started from (`start`, `start_name`). Joined sets have the histories of
# all (`parts`), each with its name (`source`), `digest` and `dimension`.
History = dict[str, Any]
PRE_TRAINED: History = {"method": "pre-trained"}


def write_vectors(folder: Path, chosen: WordSet, history: History) -> None:
    """Write vectors.parquet: words and vectors, and the history as metadata."""
    matrix = np.ascontiguousarray(chosen.vectors, np.float32)
    columns = {
        "word": pa.array(chosen.words, pa.string()),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1]),
    }
    table = pa.table(columns, metadata={"history": json.dumps(history)})
    pq.write_table(table, folder / VECTORS, compression="zstd", use_dictionary=False)


def read_vectors(folder: Path, name: str = VECTORS) -> tuple[pa.StringArray, Float32Array]:
    """The words of a file in a folder, and their vectors (words, d)."""
    table = pq.read_table(folder / name, columns=["word", "vector"])
    words: Any = table["word"].combine_chunks()
    vectors: Any = table["vector"].combine_chunks()
    return words, vectors.flatten().to_numpy().reshape(-1, vectors.type.list_size)


def history_of(source: VectorInput) -> History:
    """How a set was made, from the metadata of its file."""
    if not str(source).endswith(".parquet"):
        return PRE_TRAINED
    metadata = pq.read_schema(str(source)).metadata or {}
    return {"method": "unknown", **json.loads(metadata.get(b"history", "{}"))}


def set_name(source: VectorInput) -> str:
    """A set's short name; of a set of this pipeline its folder's, or its method if it is a stage's
    output."""
    path = Path(str(source))
    if path.name != VECTORS:
        return short_name(str(source))
    if path.is_relative_to(stages_folder()):
        return str(history_of(source)["method"])
    return path.parent.name


def set_digest(source: Any) -> str:
    """Digest of a set's content, from what identifies it in a manifest (see `identity`)."""
    if isinstance(source, Mapping) and "subwords" in source:  # as for a list of its files
        files = [digest for digest in source.values() if digest is not None]
        source = files if len(files) > 1 else files[0]
    return source if isinstance(source, str) else digest_of(source)


def part_sizes(folder: Path) -> tuple[int, ...]:
    """The dimension of each of several joined sets; empty for a single set."""
    return tuple(part["dimension"] for part in history_of(folder / VECTORS).get("parts", ()))


def require_subwords(selected: Path, name: str) -> None:
    """Raises UserError if a selected set, shown in the message as `name`, has no n-grams."""
    if not (selected / SUBWORDS).exists():
        raise UserError(
            f"unknown_words is 'subword', but the vectors {name} have no n-grams. Use a fastText "
            ".bin or a set trained with fasttext, or set unknown_words to 'zero', 'random' or "
            "'trainable'."
        )


def take_rows(words: Any, matrix: Any, wanted: set[str], keep_first: int) -> WordSet:
    """The kept rows; the first one of a repeated word."""
    keep = pc.is_in(words, value_set=pa.array(sorted(wanted), pa.string())).to_numpy(False)
    keep[:keep_first] = True
    keep &= pc.index_in(words, value_set=words).to_numpy() == np.arange(len(words))
    chosen = np.flatnonzero(keep)
    return WordSet(words.take(pa.array(chosen)).to_pylist(), np.ascontiguousarray(matrix[chosen]))


def select_trained(file: Path, wanted: set[str], keep_first: int) -> tuple[WordSet, int, History]:
    """The kept part of a set that this pipeline trained, its total number of rows, and its history.

    Raises:
        UserError: the file or its n-grams can't be read, are no set, or have invalid values.
    """
    dimension = trained_dimension(file)
    with _reporting_read_errors(file):
        words, matrix = read_vectors(file.parent, file.name)
        history = history_of(file)
    if words.null_count:
        raise UserError(f"The vectors {file} have a row without a word. Train the set again.")
    chosen = take_rows(words, matrix, wanted, keep_first)
    _require_finite(file, chosen)
    subwords = _load_subwords(file, dimension)
    return WordSet(chosen.words, chosen.vectors, subwords), len(words), history


def trained_dimension(file: Path) -> int:
    """The dimension of a set that this pipeline trained, from the columns in the file's header.

    Raises:
        UserError: the file can't be read, or has other columns.
    """
    with _reporting_read_errors(file):
        types: dict[str, Any] = {field.name: field.type for field in pq.read_schema(file)}
    vector = types.get("vector", pa.null())
    fixed = pa.types.is_fixed_size_list(vector) and vector.value_type == pa.float32()
    if types.get("word") != pa.string() or not fixed:
        raise UserError(
            f"{file} is not a set of vectors from this project: expected the columns word (string) "
            "and vector (fixed-size list of float32). Export other sets as .txt, .vec or .bin."
        )
    return int(vector.list_size)


@contextmanager
def _reporting_read_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(
            f"The vectors {file} can't be read: {error}. Check the path, or train the set again."
        ) from error


def _load_subwords(file: Path, dimension: int) -> Subwords | None:
    path = file.with_name(SUBWORDS)
    try:
        subwords = Subwords.load(file.parent)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"The n-grams {path} can't be read: {error!r}. Copy the folder again, or train the set "
            "again."
        ) from error
    if subwords is not None and subwords.ngrams.shape[1:] != (dimension,):
        raise UserError(
            f"The n-grams {path} have shape {subwords.ngrams.shape}, but the vectors beside them "
            f"have dimension {dimension}, so they belong to different sets. Copy both from the "
            "same folder."
        )
    return subwords


def _require_finite(file: Path, chosen: WordSet) -> None:
    finite = np.isfinite(chosen.vectors).all(axis=1)
    if not finite.all():
        word = chosen.words[int(np.argmin(finite))]
        raise UserError(
            f"The vectors {file} have NaN or infinite values for the word {word!r}. Train the set "
            "again."
        )


if TYPE_CHECKING:
    from models.configs.variant import UnknownWords


def load_word_vectors(
    vocabulary: Path, vectors: Path, unknown_words: "UnknownWords" = "zero", seed: int = 0
) -> Float32Array:
    """One vector per row of words.parquet, (V, d); zero for row 0 and for OOV words.

    With "subword", OOV words get vectors composed from the set's n-grams. With "random", row 1 and
    each OOV word get a random vector of their own, with the standard deviation of the set's
    vectors. Apart from this scale, a word's random vector is the same in every vocabulary.
    """
    words: Any = pq.read_table(vocabulary / "words.parquet", columns=["word"])["word"]
    known, rows = read_vectors(vectors)
    positions = pc.index_in(words.combine_chunks()[len(SPECIAL) :], value_set=known)
    is_known = positions.is_valid().to_numpy(False)
    matrix = np.zeros((len(words), rows.shape[1]), dtype=np.float32)
    matrix[np.flatnonzero(is_known) + len(SPECIAL)] = rows[positions.drop_null().to_numpy()]
    if unknown_words == "subword":
        oov = np.flatnonzero(~is_known) + len(SPECIAL)
        matrix[oov] = composed_vectors(vectors, words.take(oov).to_pylist())
    if unknown_words == "random":
        scale = _scale(rows, part_sizes(vectors))
        empty = np.flatnonzero(~matrix.any(axis=1))[1:]
        names = words.take(empty).to_pylist()
        drawn = [scale * _random_vector(name, rows.shape[1], seed) for name in names]
        matrix[empty] = in_half_precision(np.array(drawn, np.float32))
    return matrix


def composed_vectors(selected: Path, words: Sequence[str]) -> Float32Array:
    """(words, d) vectors composed from the n-grams of a selected set, which it must have."""
    subwords = Subwords.load(selected)
    if subwords is None:
        raise FileNotFoundError(selected / SUBWORDS)
    return subwords.vectors(words)


def _scale(rows: Float32Array, sizes: Sequence[int]) -> Any:
    """The standard deviation of a set's vectors (words, d); of joined sets one per column (d,),
    which is 0 for the columns that say which words a set knows."""
    if not rows.size:
        return 1.0
    if not sizes:
        return rows.std()
    scales = []
    for part in np.split(rows, np.cumsum([size + 1 for size in sizes])[:-1], axis=1):
        known = part[part[:, -1] > 0, :-1]
        scales += [float(known.std()) if known.size else 1.0] * (part.shape[1] - 1) + [0.0]
    return np.array(scales)


def _random_vector(word: str, size: int, seed: int) -> FloatArray:
    """A word's random vector (size,); depends on the word and the seed only."""
    digest = hashlib.sha256(word.encode()).digest()
    return np.random.default_rng([seed, *digest]).standard_normal(size)
