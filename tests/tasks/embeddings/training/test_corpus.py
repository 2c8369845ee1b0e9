"""Corpora from files of every type, read as a stream and tokenised like questions."""

import gzip
import logging
import lzma
import re
import time
import tracemalloc
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from random import Random
from zipfile import ZipFile

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.errors import UserError
from tasks.embeddings.training import corpus, corpus_files
from tasks.embeddings.training.corpus import (
    MAX_LINE_TOKENS,
    prepare_corpus,
    read_vocabulary,
    tokenise_block,
)
from tasks.embeddings.training.corpus_files import find_texts, read_texts
from tasks.text.tokenizer import tokenize
from tasks.text.vocabulary import case_key


def prepare(folder: Path, *specs: str | Path, lower_case: bool = True) -> list[str]:
    """Prepare a corpus; returns its lines."""
    out = folder / "prepared"
    out.mkdir(exist_ok=True)
    prepare_corpus(out, [f for spec in specs for f in find_texts(str(spec))], lower_case)
    return (out / "corpus.txt").read_text(encoding="utf-8").splitlines()


def test_every_file_type_gives_ordered_paragraphs(tmp_path: Path) -> None:
    text = "First, U.S. law.\nSecond: don't!\n"
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text(text, encoding="utf-8")
    (folder / "b.txt.gz").write_bytes(gzip.compress(text.encode()))
    (folder / "deep" / "c.txt.xz").write_bytes(lzma.compress(text.encode()))
    (folder / "deep" / "d.txt.zst").write_bytes(pa.compress(text.encode(), "zstd").to_pybytes())
    (folder / "notes.pdf").write_bytes(b"%PDF\0")
    (folder / "train.json.gz").write_bytes(gzip.compress(b'{"data": []}'))
    with ZipFile(folder / "e.zip", "w") as archive:
        archive.writestr("in/e.txt", text)
        archive.writestr("readme.md", "no text of the corpus")
    table = pa.table({"id": [1, 2], "body": ["First, U.S. law.", "Second: don't!"]})
    pq.write_table(table, tmp_path / "f.parquet")
    lines = prepare(tmp_path, folder, f"{tmp_path / 'f.parquet'}#body")
    assert lines == ["first , u.s. law .", "second : do n't !"] * 6


def test_progress_total_is_known_for_every_file_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"Line {number} of some text.\n" for number in range(40_000)).encode()
    (tmp_path / "a.txt").write_bytes(text)
    (tmp_path / "b.txt.xz").write_bytes(lzma.compress(text))
    with ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("c.txt", text)
    pq.write_table(pa.table({"text": text.decode().splitlines()}), tmp_path / "d.parquet")
    totals: list[float] = []
    monkeypatch.setattr(
        corpus.ProgressReporter, "report", lambda progress, done: totals.append(progress.total)
    )
    words = 4 * 6 * 40_000
    assert len(prepare(tmp_path, tmp_path)) == 4 * 40_000
    assert totals[0] > 0 and totals[-1] == pytest.approx(words, rel=0.01)


def test_skipped_files_in_a_folder_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / ".saved").mkdir()
    hidden = (".saved/a.txt", ".hidden.txt")
    for name in ("a.txt", "b.txt.gz", "deep/notes.pdf", "train.json", *hidden):
        (tmp_path / name).touch()
    with caplog.at_level(logging.INFO):
        find_texts(str(tmp_path))
    assert "reading 2 files, skipping 2 others (for example deep/notes.pdf)" in caplog.text


@pytest.mark.parametrize(
    ("named", "files"),
    [
        ("2026-*.txt", "2026-1.txt 2026-2.txt"),
        ("deep*", "deep/c.txt"),
        ("**", "2026-1.txt 2026-2.txt deep/c.txt p.parquet"),
        ("*.parquet#body", "p.parquet"),
    ],
)
def test_glob_matches_each_file_once(tmp_path: Path, named: str, files: str) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("2026-1.txt", "2026-2.txt", "deep/c.txt", "p.parquet"):
        (tmp_path / name).touch()
    texts = find_texts(str(tmp_path / named))
    assert [file.path for file in texts] == [tmp_path / file for file in files.split()]
    assert {file.column for file in texts} == {"body" if "#" in named else "text"}


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("train.json", "JSON, .*, move it from the corpus's"),
        ("train.JSONL.gz", "JSON, "),
        ("a.zip/train.ndjson", "JSON, "),
        ("pages.htm", "HTML or XML, .* Extract its text"),
        ("tickets.csv.gz", r"a table, .* Convert it to Parquet, .*: FILE\.parquet#COLUMN\."),
    ],
)
def test_rejects_files_that_are_no_texts(tmp_path: Path, name: str, what: str) -> None:
    with ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("train.ndjson", "{}")
    if ".zip" not in name:
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=rf"{name} is {what}"):
        find_texts(str(tmp_path / name))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\xef\xbb\xbf<!DOCTYPE html>\n<p>", " is HTML or XML, whose tags"),
        (b"%PDF-1.7\n", ": the file is a PDF. Save its text as .txt"),
    ],
)
def test_rejects_texts_that_are_others_by_content(
    tmp_path: Path, content: bytes, what: str
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(UserError, match=rf"^{tmp_path}/a\.txt{what}"):
        prepare(tmp_path, tmp_path)


@pytest.mark.parametrize("name", ["~nosuchuser/a.txt", f"{'x' * 300}.parquet#body"])
def test_unreadable_corpus_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"^{name.partition('#')[0]} can't be read "):
        find_texts(name)


def test_dataset_contexts_can_be_a_corpus(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["A b.", None, "", "C"]}), tmp_path / "contexts.parquet")
    assert prepare(tmp_path, tmp_path / "contexts.parquet", lower_case=False) == ["A b .", "C"]


def test_one_large_row_group_is_streamed(tmp_path: Path) -> None:
    random, file = Random(0), tmp_path / "pages.parquet"
    table = pa.table({"text": [random.randbytes(1000).hex() for _ in range(10_000)]})
    pq.write_table(table, file, use_dictionary=False)
    assert pq.read_metadata(file).num_row_groups == 1
    before = pa.total_allocated_bytes()
    texts = read_texts(*find_texts(str(file)))
    peak = max(pa.total_allocated_bytes() - before for _ in texts)
    assert 0 < peak < file.stat().st_size / 2


def test_rejects_missing_corpus(tmp_path: Path) -> None:
    for name in ("other.txt", "other-*.txt"):
        with pytest.raises(UserError, match=rf"Corpus .*{re.escape(name)} does not exist"):
            find_texts(str(tmp_path / name))


@given(st.lists(st.text(), max_size=5), st.booleans())
def test_tokens_match_the_pipeline(texts: list[str], lower_case: bool) -> None:
    lines, counts, total = tokenise_block(texts, lower_case)
    expected = [[case_key(t[s:e], lower_case) for s, e in tokenize(t)] for t in texts]
    split = [line.split(" ") for line in lines.decode().split("\n")[:-1]]
    assert split == [tokens for tokens in expected if tokens]
    assert counts.total() == total == sum(map(len, expected))


def test_lines_never_exceed_the_training_limit() -> None:
    lines = tokenise_block(["a " * (2 * MAX_LINE_TOKENS + 1)], True)[0].split(b"\n")
    assert [len(line.split()) for line in lines] == [MAX_LINE_TOKENS, MAX_LINE_TOKENS, 1, 0]


@pytest.mark.heavy
def test_parallel_result_matches_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "BLOCK_CHARACTERS", 1 << 16)
    monkeypatch.setattr(corpus, "cores", lambda: 2)
    paragraphs = [f"Paragraph {i} of many, " + "and so on " * 200 for i in range(5000)]
    source = tmp_path / "long.txt"
    source.write_text("\n".join(paragraphs), encoding="utf-8")
    tracemalloc.start()
    (tmp_path / "prepared").mkdir()
    facts = prepare_corpus(tmp_path / "prepared", find_texts(str(source)), True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    lines, counts, total = tokenise_block(paragraphs, True)
    assert (tmp_path / "prepared" / "corpus.txt").read_bytes() == lines
    assert (facts["words"], facts["distinct"]) == (total, len(counts))
    assert read_vocabulary(tmp_path / "prepared", 1) == dict(
        sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
    assert peak < source.stat().st_size / 2


def prepare_on_two_cores(folder: Path, files: list[corpus_files.TextFile]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "cores", lambda: 2)
        prepare_corpus(folder, files, True)


def test_killed_preparation_leaves_no_process(tmp_path: Path) -> None:
    source = tmp_path / "long.txt"
    source.write_text(f"{'A word and another. ' * 50}\n" * 20_000, encoding="utf-8")
    arguments = (tmp_path, find_texts(str(source)))
    process = get_context("spawn").Process(target=prepare_on_two_cores, args=arguments)
    process.start()
    written = tmp_path / "corpus.txt"
    while not (written.exists() and written.stat().st_size):
        assert process.is_alive()
        time.sleep(0.02)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.join()
    assert children and not psutil.wait_procs(children, timeout=300)[1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", r"corpus is empty: a\.txt contain no words"),
        ("a.txt", b" \n \n", r"corpus is empty"),
        ("a.txt", b"words\n\0\1\2", r"a\.txt, line 2: found a NUL byte, .* a binary"),
        (
            "a.txt",
            "one\ntwo".encode("utf-16"),
            r"a\.txt is encoded in UTF-16\. Convert it",
        ),
        ("a.txt", b"\xfe\xff\0a\0b", r"a\.txt is encoded in UTF-16"),
        ("a.txt", "one\nzwölf".encode("latin-1"), r"a\.txt, line 2: not UTF-8"),
        ("a.txt.gz", b"\x1f\x8bno gzip", r"a\.txt\.gz can't be read"),
        ("a.parquet", b"no parquet", r"a\.parquet can't be read as Parquet"),
    ],
)
def test_rejects_empty_binary_or_undecodable_files(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        prepare(tmp_path, tmp_path / name)


def test_rejects_missing_or_non_text_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1], "body": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"no text column 'text'\. Select one .*text columns: body"):
        prepare(tmp_path, tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"no text column 'n'"):
        prepare(tmp_path, f"{tmp_path / 'a.parquet'}#n")


@pytest.mark.parametrize(
    "type_", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_reads_text_columns_of_every_type(tmp_path: Path, type_: pa.DataType) -> None:
    texts = pa.array(["An owl", None, "A bee", "An owl"]).cast(type_)
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    files = find_texts(str(tmp_path / "a.parquet"))
    assert [text for file in files for text in read_texts(file)] == ["An owl", "A bee", "An owl"]


def test_error_names_the_rows_that_are_not_utf8(tmp_path: Path) -> None:
    texts = pa.array([b"a"] * 1500 + ["ü".encode("latin-1")]).view(pa.string())
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet: not UTF-8 .* rows 1,025 to 1,501\."):
        prepare(tmp_path, tmp_path / "a.parquet")


@given(st.text(alphabet="aé日😀' \t\n.", max_size=60), st.integers(8, 20))
def test_long_lines_are_split_at_white_space(
    tmp_path_factory: pytest.TempPathFactory, text: str, longest: int
) -> None:
    file = tmp_path_factory.mktemp("text") / "a.txt"
    file.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_files, "LONGEST_PIECE", longest)
        pieces = list(read_texts(*find_texts(str(file))))
    assert "".join(pieces) == text
    for piece, following in pairwise(pieces):
        assert len(piece.encode()) <= longest
        if not piece[-1].isspace():  # the piece ends inside a word that exceeds it
            assert (
                not re.search(r"\s", piece) and len((piece + following[:1]).encode()) > longest - 4
            )


def test_one_long_line_is_read_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("zwölf Bären " * 200_000, encoding="utf-8")
    pieces = list(read_texts(*find_texts(str(tmp_path / "a.txt"))))
    assert len(pieces) == 3 and max(map(len, pieces)) <= 1 << 20
    assert {word for piece in pieces for word in piece.split()} == {"zwölf", "Bären"}
    (tmp_path / "a.txt").write_bytes(b"aaa " * 300_000 + "ü\nb\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"line 1: not UTF-8 \(.* at byte 1200000\)"):
        list(read_texts(*find_texts(str(tmp_path / "a.txt"))))


def test_rejects_empty_folders(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UserError, match=r"contains no texts; expected \.txt .* \.parquet files\."):
        find_texts(str(tmp_path / "nothing"))
    (tmp_path / "nothing" / "a.docx").touch()
    with pytest.raises(UserError, match=r"\.parquet files, not a\.docx\. Unpack archives"):
        find_texts(str(tmp_path / "nothing"))


def test_rejects_corpus_with_too_few_words(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("owl owl owl bee", encoding="utf-8")
    prepare(tmp_path, tmp_path / "a.txt")
    with pytest.raises(
        UserError, match=r"Only 0 .* at least 9 times .*'owl', occurs 3 times\)\. Lower min_count"
    ):
        read_vocabulary(tmp_path / "prepared", 9)
    with pytest.raises(UserError, match="Only 1 of the corpus's 2 distinct words"):
        read_vocabulary(tmp_path / "prepared", 2)
