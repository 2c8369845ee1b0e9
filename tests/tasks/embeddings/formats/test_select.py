"""Selection of rows from sources of word vectors: the packaged set, text files and zips."""

import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infra.errors import UserError
from tasks.embeddings.formats.select import dimension_of, select_vectors
from tasks.embeddings.formats.source import PACKAGED, check_source
from tasks.embeddings.formats.store import read_vectors
from tasks.embeddings.formats.word_vectors import FLOAT16_ERROR, Subwords
from tests.factories.vectors import write_lines


def select(
    folder: Path, source: str, wanted: Iterable[str] = (), keep_first: int = 0
) -> dict[str, list[float]]:
    """The rows kept from a source: each word with its vector, in order."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    select_vectors(out, source, wanted, keep_first)
    words, matrix = read_vectors(out)
    assert matrix.dtype == np.float32
    return dict(zip(map(str, words.to_pylist()), matrix.tolist(), strict=True))


def test_selection_keeps_the_source_order(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "v.txt", "a 1 2", "b 3 4", "c 5 6", "d 7 8")
    kept = select(tmp_path, source, wanted={"d", "c", "missing"}, keep_first=1)
    assert list(kept.items()) == [("a", [1, 2]), ("c", [5, 6]), ("d", [7, 8])]


def test_vectors_are_rounded_if_float16_keeps_them(tmp_path: Path) -> None:
    exact = {"a": [0.1234567, -3.2345678], "b": [0.0, 0.0], "c": [1e-7, 2.0]}
    for large, rounded in ((1.0, True), (70_000.0, False), (1e-6, False)):
        rows = {**exact, "d": [large, large]}
        lines = [f"{word} {x!r} {y!r}" for word, (x, y) in rows.items()]
        kept = select(tmp_path, write_lines(tmp_path / "v.txt", *lines), rows)
        dtype = np.float16 if rounded else np.float32
        assert kept == {word: np.array(row, dtype).tolist() for word, row in rows.items()}


def test_facts_contain_no_local_paths(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "v.txt", "a 1 2", "b 3 4")
    facts = {"source": "v.txt", "dimension": 2, "rows_in_source": 2}
    assert select_vectors(tmp_path, source, {"b"}, 0) == {"rows": 1, **facts}
    schema = pq.read_schema(tmp_path / "vectors.parquet")
    assert schema.metadata == {b"history": b'{"method": "pre-trained"}'}
    assert str(schema.field("vector").type) == "fixed_size_list<element: float>[2]"


def test_none_gives_an_empty_set(tmp_path: Path) -> None:
    assert select(tmp_path, "none", wanted={"a"}, keep_first=9) == {}


def test_first_of_duplicate_words_wins(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "v.txt", "a 1 2", "b 3 4", "a 5 6")
    assert select(tmp_path, source, wanted={"a"}, keep_first=9) == {"a": [1, 2], "b": [3, 4]}


def test_words_may_contain_spaces(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "v.txt", ", 1.5 2", ". . . 3 4", "at name@domain.com 5 6")
    wanted = {". . .", "at name@domain.com"}
    assert select(tmp_path, source, wanted) == {". . .": [3, 4], "at name@domain.com": [5, 6]}


def test_words_may_end_in_an_integer(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "v.txt", "a 0.1 -0.25", "apollo 11 0.5 1e-05")
    assert select(tmp_path, source, {"apollo 11"}) == {
        "apollo 11": pytest.approx([0.5, 1e-05], abs=1e-7)
    }


def test_byte_order_mark_is_stripped(tmp_path: Path) -> None:
    for rows in ("a 1 2\n", "1 2\na 1 2\n"):
        (tmp_path / "v.txt").write_text(rows, encoding="utf-8-sig")
        assert select(tmp_path, str(tmp_path / "v.txt"), {"a"}) == {"a": [1, 2]}


def test_words_may_contain_other_white_space(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "v.txt", "1\xa01/2 1 2", "a\x85b 3 4")
    assert select(tmp_path, source, keep_first=2) == {"1\xa01/2": [1, 2], "a\x85b": [3, 4]}


def test_header_line_sets_the_dimension(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "v.vec", "2 3", "a b 1 2 3 ", "c 4 5 6 ")
    assert select(tmp_path, source, keep_first=2) == {"a b": [1, 2, 3], "c": [4, 5, 6]}


def test_rejects_fewer_rows_than_the_header_states(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "v.vec", "3 2", "a 1 2", "b 3 4")
    with pytest.raises(UserError, match=r"v\.vec: the header states 3 rows, but the file has 2"):
        select(tmp_path, source)


def test_accepts_any_line_endings(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"a 1 2\r\nb 3 4")
    assert select(tmp_path, str(tmp_path / "v.txt"), keep_first=2) == {"a": [1, 2], "b": [3, 4]}


def test_undecodable_words_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_bytes(b"\xff\xfe 1 2\nb 3 4\n")
    assert select(tmp_path, str(tmp_path / "v.txt"), keep_first=2) == {"b": [3, 4]}


def test_empty_selection_gives_an_empty_matrix(tmp_path: Path) -> None:
    assert select(tmp_path, write_lines(tmp_path / "v.txt", "a 1 2")) == {}
    _, matrix = read_vectors(tmp_path / "out")
    assert matrix.shape == (0, 2)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a 1 2", "b 3"], r"v\.txt, line 2: expected 2 numbers, found 1"),
        (["a 1 2", "b"], r"line 2: expected 2 numbers, found 0"),
        (["a 1 2", "", "c 3 4"], r"line 2: expected 2 numbers, found 0"),
        (["a 1.5 2.5", "b 1.5 2.5 3.5"], r"line 2: expected 2 numbers, found 3"),
        (["2 2", "a 1 2", "b 3"], r"line 3: expected 2 numbers, found 1"),
        (["a 1 2", "w nan 2"], r"line 2: a value is not a finite number"),
        (["a 1 2", "w 1e99 2"], r"line 2: a value is not a finite number"),
        (["a 1 2", "w one 2"], r"line 2: a value is not a finite number"),
        (["a 1 2", "b 1 2 3"], r"line 2: expected 2 numbers, found 3"),
        (["2 2", "a 1 2", "b 1 2 3"], r"line 3: expected 2 numbers, found 3"),
        (["a 1 2", "b 1 2.5 3"], r"line 2: expected 2 numbers, found 3"),
        (["a 1 2", "b 1e-05 2 3"], r"line 2: expected 2 numbers, found 3"),
        (["a 0.1 0.2", "b 1E5 0.2 0.3"], r"line 2: expected 2 numbers, found 3"),
        (["a  1 2", "w  1 2"], r"line 2: a value is not a finite number"),
        ([], r"v\.txt contains no vectors"),
        (["alone"], r"v\.txt contains no vectors"),
    ],
)
def test_broken_row_error_names_the_line(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        select(tmp_path, write_lines(tmp_path / "v.txt", *rows), wanted={"w"})


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
@pytest.mark.parametrize(
    "header", ["1 0", f"1 {10**20}", f"1 {'9' * 5000}", f"{'9' * 4000} 2", "1 1000001"]
)
def test_header_with_absurd_numbers_is_named(tmp_path: Path, name: str, header: str) -> None:
    write_lines(tmp_path / name, header, "a 1 2")
    with pytest.raises(
        UserError, match=rf"v\.\w+: the header '{header[:30]}.* is not that of word"
    ):
        select(tmp_path, str(tmp_path / name))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"No such file: .*gone\.txt"):
        select(tmp_path, str(tmp_path / "gone.txt"))
    with pytest.raises(UserError, match=r"No such file: .*gone\.zip"):
        select(tmp_path, str(tmp_path / "gone.zip"))


def zip_of(file: Path, **members: str) -> str:
    with ZipFile(file, "w", 8) as archive:
        for name, text in members.items():
            archive.writestr(f"{name}.txt", text)
    return str(file)


def test_reads_the_only_text_in_a_zip(tmp_path: Path) -> None:
    source = zip_of(tmp_path / "v.zip", glove="a 1 2\nb 3 4\n")
    assert select(tmp_path, source, {"b"}) == {"b": [3, 4]}


def test_text_in_a_zip_is_selected_by_path(tmp_path: Path) -> None:
    source = zip_of(tmp_path / "v.zip", **{"small": "a 1\n", "sets/large": "a 1 2\n"})
    assert select(tmp_path, f"{source}/small.txt", {"a"}) == {"a": [1]}
    assert select(tmp_path, f"{source}/sets/large.txt", {"a"}) == {"a": [1, 2]}
    facts = select_vectors(tmp_path, f"{source}/sets/large.txt", {"a"}, 0)
    assert facts["source"] == "v.zip/sets/large.txt"
    with pytest.raises(UserError, match=r"2 sets .* Select one .*sets/large\.txt, small\.txt"):
        select(tmp_path, source)
    with pytest.raises(UserError, match=r"v\.zip does not contain other\.txt"):
        select(tmp_path, f"{source}/other.txt")


def test_reads_a_binary_set_in_a_zip(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "v.zip", "w") as archive:
        archive.writestr("readme.md", "about it")
        archive.writestr("m.bin", b"1 2\na " + np.array([1, 2], "<f4").tobytes())
    assert select(tmp_path, str(tmp_path / "v.zip"), {"a"}) == {"a": [1, 2]}
    with ZipFile(tmp_path / "v.zip", "a") as archive:
        archive.writestr("m.vec", "a 3 4\n")
    with pytest.raises(UserError, match=r"2 sets of vectors\. Select one .*m\.bin, m\.vec"):
        select(tmp_path, str(tmp_path / "v.zip"))
    assert select(tmp_path, f"{tmp_path}/v.zip/m.vec", {"a"}) == {"a": [3, 4]}
    with ZipFile(tmp_path / "v.zip", "w") as archive:
        archive.writestr("readme.md", "about it")
    with pytest.raises(UserError, match=r"v\.zip contains no vectors .*a \.txt, \.vec or \.bin"):
        select(tmp_path, str(tmp_path / "v.zip"))


def test_dimension_is_read_from_the_file_start(tmp_path: Path) -> None:
    write_lines(tmp_path / "v.txt", "a 1 2 3", "broken")
    write_lines(tmp_path / "v.vec", "9 3", "a 1 2 3")
    (tmp_path / "v.bin").write_bytes(b"9 3\na ")
    parquet_of(tmp_path / "vectors.parquet", ["a"], [[1, 2, 3]], pa.list_(pa.float32(), 3))
    for name in ("v.txt", "v.vec", "v.bin", "vectors.parquet"):
        assert dimension_of(str(tmp_path / name)) == 3
    assert dimension_of(PACKAGED) == 50


def test_broken_zip_is_named(tmp_path: Path) -> None:
    source = Path(zip_of(tmp_path / "v.zip", v="".join(f"w{i} {i} {i * 7}\n" for i in range(9999))))
    data = bytearray(source.read_bytes())
    data[len(data) // 2] ^= 255
    source.write_bytes(data)
    with pytest.raises(UserError, match=r"v\.zip"):
        select(tmp_path, str(source))
    source.write_bytes(data[:100])
    with pytest.raises(UserError, match=r"v\.zip can't be read"):
        select(tmp_path, str(source))


def test_large_text_file_is_streamed(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "v.txt", *(f"w{i}" + " 0.123456" * 50 for i in range(20_000)))
    tracemalloc.start()
    kept = select(tmp_path, source, {"w5", "w19999"})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert list(kept) == ["w5", "w19999"]
    assert peak < Path(source).stat().st_size / 2


def test_packaged_set_has_the_published_values(tmp_path: Path) -> None:
    kept = select(tmp_path, PACKAGED, {"owl", "the", "Owl"}, keep_first=2)
    assert list(kept) == ["the", ",", "owl"]
    assert kept["the"][:3] == pytest.approx([0.418, 0.24968, -0.41242], rel=FLOAT16_ERROR)
    facts = select_vectors(tmp_path, PACKAGED, {"owl"}, 0)
    assert (facts["dimension"], facts["rows_in_source"]) == (50, 400_000)


def test_packaged_set_and_its_text_select_alike(tmp_path: Path) -> None:
    packaged = select(tmp_path, PACKAGED, keep_first=50)
    rows = [" ".join([word, *map(repr, vector)]) for word, vector in packaged.items()]
    assert select(tmp_path, write_lines(tmp_path / "v.txt", *rows), keep_first=50) == packaged


def test_equal_inputs_give_equal_bytes(tmp_path: Path) -> None:
    wanted = [f"{letter}{i}" for letter in "ab" for i in range(50)]
    source = write_lines(tmp_path / "v.txt", *(f"{word} 1 2" for word in wanted))
    files = []
    for order in (wanted, wanted[::-1]):
        select_vectors(tmp_path, source, order, 0)
        files.append((tmp_path / "vectors.parquet").read_bytes())
    assert files[0] == files[1]


@pytest.mark.parametrize(
    "spec",
    [PACKAGED, "glove.840B.300d.txt", "a/wiki.vec.gz", "glove.zip", "b.bin", "vectors.parquet"],
)
def test_accepts_sources_by_name_or_file_type(spec: str) -> None:
    assert check_source(spec) == spec


@pytest.mark.parametrize("spec", ["glove-6b-100d", "vectors.npy", ""])
def test_rejects_unknown_sources(spec: str) -> None:
    with pytest.raises(
        ValueError, match=r"unknown vectors .*; expected 'glove-6b-50d', 'glove\.6B'"
    ):
        check_source(spec)


def parquet_of(file: Path, words: list[str | None], vectors: Any, kind: pa.DataType) -> str:
    pq.write_table(pa.table({"word": words, "vector": pa.array(vectors, kind)}), file)
    return str(file)


PAIRS = pa.list_(pa.float32(), 2)


def test_first_of_duplicate_parquet_words_wins(tmp_path: Path) -> None:
    vectors = [[1, 2], [3, 4], [5, 6]]
    source = parquet_of(tmp_path / "v.parquet", ["a", "b", "a"], vectors, PAIRS)
    assert select(tmp_path, source, {"a", "b"}, 9) == {"a": [1, 2], "b": [3, 4]}


@pytest.mark.parametrize(
    ("words", "vectors", "kind", "message"),
    [
        (["a"], [[1, 2]], pa.list_(pa.float32()), "expected the columns word .* and vector"),
        (["a"], [[1, 2]], pa.list_(pa.float64(), 2), "expected the columns word .* and vector"),
        ([b"a"], [[1, 2]], PAIRS, "expected the columns word .* and vector"),
        (["a", "b"], [[1, 2], [3, float("nan")]], PAIRS, "NaN or infinite values for the word 'b'"),
        (["a", "b"], [[1, 2], None], PAIRS, "can't be read"),
        (["a", None], [[1, 2], [3, 4]], PAIRS, "have a row without a word"),
        (["a", "b"], [[1, 2], [3, None]], PAIRS, "can't be read"),
    ],
)
def test_rejects_broken_parquet_files(
    tmp_path: Path, words: list[Any], vectors: Any, kind: pa.DataType, message: str
) -> None:
    source = parquet_of(tmp_path / "v.parquet", words, vectors, kind)
    with pytest.raises(UserError, match=rf"v\.parquet.* {message}"):
        select(tmp_path, source, {"a", "b"})


def test_rejects_parquet_files_of_other_content(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "v.parquet")
    with pytest.raises(UserError, match=r"v\.parquet is not a set of vectors from this project"):
        select(tmp_path, str(tmp_path / "v.parquet"))


def test_rejects_ngrams_of_another_dimension(tmp_path: Path) -> None:
    source = parquet_of(tmp_path / "v.parquet", ["a"], [[1, 2]], PAIRS)
    Subwords(np.ones((7, 3), np.float32), 3, 6).save(tmp_path)
    with pytest.raises(
        UserError, match=r"subwords\.safetensors have shape \(7, 3\), .*dimension 2"
    ):
        select(tmp_path, source, {"a", "b"})


def test_rejects_truncated_ngrams(tmp_path: Path) -> None:
    source = parquet_of(tmp_path / "v.parquet", ["a"], [[1, 2]], PAIRS)
    (tmp_path / "subwords.safetensors").write_bytes(b"cut")
    with pytest.raises(UserError, match=r"subwords\.safetensors can't be read"):
        select(tmp_path, source, {"a", "b"})
