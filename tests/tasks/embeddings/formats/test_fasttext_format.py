"""Binary word2vec and fastText files, as gensim writes them."""

import gzip
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gensim.models import FastText
from gensim.models.fasttext import save_facebook_model
from gensim.models.keyedvectors import KeyedVectors

from infra.errors import UserError
from tasks.embeddings.formats.fasttext_format import MAGIC
from tasks.embeddings.formats.select import load_vectors, select_vectors
from tasks.embeddings.formats.store import composed_vectors, read_vectors
from tasks.embeddings.formats.word_vectors import FLOAT16_ERROR, SUBWORDS, Subwords
from tests.factories.corpus import two_topic_sentences


def select(folder: Path, source: Path, *wanted: str, keep_first: int = 0) -> dict[str, Any]:
    """The selected words with their vectors, and the other wanted words with composed ones."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    select_vectors(out, str(source), wanted, keep_first)
    words, matrix = read_vectors(out)
    own = dict(zip(words.to_pylist(), matrix.tolist(), strict=True))
    missing = [word for word in wanted if word not in own]
    if not missing or not (out / SUBWORDS).exists():
        return own
    composed = composed_vectors(out, missing)
    return own | dict(zip(missing, composed.tolist(), strict=True))


@pytest.fixture
def word2vec(tmp_path: Path) -> Path:
    """Three words with vectors of size 2; one word has a two-byte letter."""
    vectors = KeyedVectors(2)
    vectors.add_vectors(["owl", "straße", "New_York"], np.arange(6, dtype=np.float32).reshape(3, 2))
    vectors.save_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    return tmp_path / "v.bin"


def test_word2vec_reads_only_wanted_rows(tmp_path: Path, word2vec: Path) -> None:
    assert select(tmp_path, word2vec, "straße", "New_York", "gone") == {
        "straße": [2, 3],
        "New_York": [4, 5],
    }
    packed = tmp_path / "v.bin.gz"
    packed.write_bytes(gzip.compress(word2vec.read_bytes()))
    assert select(tmp_path, packed, keep_first=1) == {"owl": [0, 1]}


def test_word2vec_rows_may_end_in_a_line_feed(tmp_path: Path) -> None:
    row = np.array([1, 2], "<f4").tobytes()
    (tmp_path / "v.bin").write_bytes(b"2 2\na " + row + b"\nb " + row + b"\n")
    assert select(tmp_path, tmp_path / "v.bin", "a", "b") == {"a": [1, 2], "b": [1, 2]}


def test_large_word2vec_file_is_streamed(tmp_path: Path) -> None:
    vectors = KeyedVectors(100)
    rows = np.random.default_rng(0).random((20_000, 100), np.float32)
    vectors.add_vectors([f"w{i}" for i in range(20_000)], rows)
    vectors.save_word2vec_format(str(tmp_path / "v.bin"), binary=True)
    tracemalloc.start()
    kept = select(tmp_path, tmp_path / "v.bin", "w19999")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kept["w19999"] == pytest.approx(rows[-1].tolist(), rel=FLOAT16_ERROR)
    assert peak < rows.nbytes / 2


def not_a_number(data: bytes) -> bytes:
    return data[:-4] + np.array([np.nan], "<f4").tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-3], r"v\.bin, row 3 of 3: file is truncated"),
        (lambda data: data[:12], r"v\.bin, row 1 of 3: file is truncated"),
        (lambda data: b"\x89PNG" + data, r"v\.bin is neither a word2vec nor a fastText file"),
        (lambda data: b"", r"v\.bin is neither a word2vec nor a fastText file"),
        (not_a_number, r"row 3 of 3: a value is not a finite number"),
    ],
)
def test_rejects_broken_word2vec_files(
    tmp_path: Path, word2vec: Path, change: Any, message: str
) -> None:
    word2vec.write_bytes(change(word2vec.read_bytes().rstrip(b"\n")))
    with pytest.raises(UserError, match=message):
        select(tmp_path, word2vec, "New_York")


@pytest.fixture(scope="module")
def facebook(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A small model as a file in fastText's own format, and the same model in gensim."""
    model = FastText(
        two_topic_sentences(), vector_size=8, min_count=1, bucket=300, epochs=2, workers=1
    )
    file = tmp_path_factory.mktemp("facebook") / "model.bin"
    save_facebook_model(model, str(file))
    return file, model.wv


def test_fasttext_vectors_match_gensim(tmp_path: Path, facebook: tuple[Path, Any]) -> None:
    file, model = facebook
    kept = select(tmp_path, file, "otter", "ottery", "grünes", "x")
    assert list(kept) == ["otter", "ottery", "grünes", "x"]
    for word, vector in kept.items():
        np.testing.assert_allclose(
            vector, model.get_vector(word), rtol=FLOAT16_ERROR * (word == "otter"), atol=1e-6
        )
    subwords = Subwords.load(tmp_path / "out")
    assert subwords is not None
    np.testing.assert_array_equal(subwords.ngrams, model.vectors_ngrams)
    assert set(load_vectors(str(file)).words) == set(model.index_to_key)


def test_fasttext_without_ngrams_has_only_its_rows(tmp_path: Path) -> None:
    """The file is as `fasttext skipgram -minn 0 -maxn 0` writes it."""
    file = tmp_path / "v.bin"
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    write_fasttext(file, ["owl", "straße", "</s>"], rows, buckets=0, ngrams=(0, 0))
    assert select(tmp_path, file, "straße", "otter", keep_first=1) == {
        "owl": [0, 1],
        "straße": [2, 3],
    }
    assert load_vectors(str(file)).subwords is None


def test_min_ngram_0_equals_min_ngram_1(tmp_path: Path) -> None:
    """With `-minn 0`, the shortest n-grams of fastText have one letter."""
    rows = np.random.default_rng(0).random((12, 2), np.float32)
    kept = []
    for shortest in (0, 1):
        file = tmp_path / f"{shortest}.bin"
        write_fasttext(file, ["owl", "bee"], rows, buckets=10, ngrams=(shortest, 3))
        kept.append(select(tmp_path, file, "owl", "otter"))
    assert kept[0] == kept[1] and set(kept[0]) == {"owl", "otter"}


def test_large_fasttext_file_is_streamed(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((20_000, 100), np.float32)
    words = [f"w{i}" for i in range(10_000)]
    write_fasttext(tmp_path / "v.bin", words, rows, buckets=10_000, ngrams=(3, 6))
    tracemalloc.start()
    select_vectors(tmp_path, str(tmp_path / "v.bin"), {"w9999", "unseen"}, 1, compose_oov=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read_vectors(tmp_path)[0].to_pylist() == ["w0", "w9999"]
    assert not (tmp_path / SUBWORDS).exists()
    assert peak < rows.nbytes / 2


def write_fasttext(
    file: Path, words: list[str], rows: Any, buckets: int, ngrams: tuple[int, int]
) -> None:
    """Write fastText's layout: rows of words, then of buckets, (words + buckets, d)."""
    settings = (rows.shape[1], 5, 5, 1, 5, 1, 2, 2, buckets, *ngrams, 100)
    with file.open("wb") as out:
        out.write(MAGIC + struct.pack("<i12id", 12, *settings, 1e-4))
        out.write(struct.pack("<iiiqq", len(words), len(words), 0, 9 * len(words), -1))
        out.writelines(word.encode() + struct.pack("<xqb", 9, 0) for word in words)
        out.write(struct.pack("<?qq", False, *rows.shape) + rows.tobytes())


@pytest.mark.parametrize("length", [10, 70, 200, -4])
def test_rejects_truncated_fasttext_files(
    tmp_path: Path, facebook: tuple[Path, Any], length: int
) -> None:
    data = facebook[0].read_bytes()
    # gensim appends the output matrix; the rows that are read end before it.
    whole = len(data) - 4 * 8 * 12 - 17
    (tmp_path / "v.bin").write_bytes(data[:length] if length > 0 else data[: whole + length])
    with pytest.raises(UserError, match=r"v\.bin is truncated"):
        select(tmp_path, tmp_path / "v.bin", "otter")


@pytest.mark.parametrize(
    ("dimension", "words", "buckets", "message"),
    [
        (0, 1, 0, "quantized or damaged"),
        (-1, 1, 0, "quantized or damaged"),
        (2, 1, -1, "quantized or damaged"),
        (2, -1, 4, "quantized or damaged"),
        (2**31 - 1, 1, 2**31 - 1, "truncated"),
        (2, 2**31 - 1, 0, "truncated"),
    ],
)
def test_absurd_fasttext_headers_are_rejected(
    tmp_path: Path, dimension: int, words: int, buckets: int, message: str
) -> None:
    file = tmp_path / "v.bin"
    write_fasttext(file, ["owl"] * (words == 1), np.zeros((4, 2), np.float32), 0, (3, 6))
    data = bytearray(file.read_bytes())
    for place, value in ((8, dimension), (40, buckets), (68, words)):
        struct.pack_into("<i", data, place, value)
    struct.pack_into("<qq", data, len(data) - 4 * 8 - 16, words + buckets, dimension)
    file.write_bytes(data)
    with pytest.raises(UserError, match=rf"v\.bin is {message}"):
        select(tmp_path, file, "otter")


def test_rejects_compressed_fasttext_files(tmp_path: Path, facebook: tuple[Path, Any]) -> None:
    (tmp_path / "v.bin.gz").write_bytes(gzip.compress(facebook[0].read_bytes()))
    with pytest.raises(UserError, match=r"v\.bin\.gz is a compressed fastText.*Decompress it"):
        select(tmp_path, tmp_path / "v.bin.gz", "otter")
