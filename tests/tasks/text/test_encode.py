"""Token ids written to disk and read back: equal texts, targets, and memory mapping."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.errors import UserError
from models.batching import Ragged
from tasks.data.ingest import ingest_articles
from tasks.data.readers import read_articles
from tasks.embeddings.formats.source import PACKAGED
from tasks.embeddings.formats.store import load_word_vectors
from tasks.text import encode as encoding
from tasks.text.encode import encode_split
from tasks.text.encoded import load_encoded
from tests.factories.splits import ingest
from tests.factories.vectors import write_lines
from tests.factories.vocabularies import write_vocabulary


def encode(folder: Path, train: Path, other: Path, source: str) -> dict[str, Any]:
    """Run all stages from two ingested splits to `folder`/encoded, the encoded second split."""
    _, vocabulary = write_vocabulary(folder, [train, other], source)
    (folder / "encoded").mkdir()
    return encode_split(folder / "encoded", other, vocabulary)


def texts(split: Path, name: str, column: str) -> list[list[str]]:
    """The token texts of each row of an ingested file."""
    table = pq.read_table(split / name, columns=[column, "token_starts", "token_ends"])
    return [
        [row[column][s:e] for s, e in zip(row["token_starts"], row["token_ends"], strict=True)]
        for row in table.to_pylist()
    ]


def decoded(ids: Ragged, vocabulary: Path) -> list[list[str]]:
    forms = pq.read_table(vocabulary / "types.parquet", columns=["form"])["form"].to_pylist()
    return [[forms[i] for i in ids[row]] for row in range(len(ids))]


def assert_same_texts(folder: Path, split: Path) -> None:
    examples = load_encoded(folder / "encoded")
    contexts = decoded(examples.contexts, folder / "vocabulary")
    assert contexts == texts(split, "contexts.parquet", "text")
    questions = decoded(examples.questions, folder / "vocabulary")
    assert questions == texts(split, "questions.parquet", "question")


@given(st.lists(st.tuples(st.text(), st.lists(st.text(), min_size=1)), min_size=1, max_size=3))
@settings(max_examples=30, deadline=None)
def test_encoded_texts_decode_to_themselves(paragraphs: list[tuple[str, list[str]]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        split = ingest(folder / "split", *paragraphs)
        encode(folder, split, split, write_lines(folder / "v.txt", "owl 1 2"))
        assert_same_texts(folder, split)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Path:
    """A folder in which encoded/ is dev-v1.1, with the vocabulary of the CS224n dev set."""
    folder = tmp_path_factory.mktemp("real")
    for name in ("dev-v1.1", "cs224n-dev-v2.0"):
        (folder / name).mkdir()
        ingest_articles(read_articles(shared_data / "squad" / f"{name}.json"), folder / name)
    encode(folder, folder / "cs224n-dev-v2.0", folder / "dev-v1.1", PACKAGED)
    return folder


def test_real_dev_set_decodes_to_itself(real: Path) -> None:
    examples = load_encoded(real / "encoded")
    assert (len(examples), len(examples.contexts)) == (10_570, 2_067)
    assert_same_texts(real, real / "dev-v1.1")


def test_targets_and_order_match_the_ingested_rows(real: Path) -> None:
    examples = load_encoded(real / "encoded")
    columns = ["context_id", "span_start", "span_end", "is_impossible"]
    table = pq.read_table(real / "dev-v1.1" / "questions.parquet", columns=columns)
    loaded = [examples.context_of, examples.span_start, examples.span_end, examples.impossible]
    for column, array in zip(table.columns, loaded, strict=True):
        np.testing.assert_array_equal(column.to_numpy(), array)
    assert [array.dtype for array in loaded] == [np.int32, np.int32, np.int32, np.bool_]


def test_token_ids_stay_memory_mapped(real: Path) -> None:
    before = pa.total_allocated_bytes()
    examples = load_encoded(real / "encoded")
    allocated = pa.total_allocated_bytes() - before
    tokens = examples.contexts.values.nbytes + examples.questions.values.nbytes
    assert tokens > 1_600_000
    assert allocated < 20_000
    assert not examples.contexts.values.flags.writeable
    assert examples.contexts.values.dtype == np.int32


def test_several_batches_are_read_as_one(real: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "TOKENS_PER_BATCH", 100_000)
    (real / "in-batches").mkdir()
    encode_split(real / "in-batches", real / "dev-v1.1", real / "vocabulary")
    file = pa.ipc.open_file(str(real / "in-batches" / "contexts.arrow"))
    assert file.num_record_batches > 1
    one, several = load_encoded(real / "encoded"), load_encoded(real / "in-batches")
    for name in ("contexts", "questions"):
        for array in ("values", "offsets"):
            expected = getattr(getattr(one, name), array)
            np.testing.assert_array_equal(getattr(getattr(several, name), array), expected)
    np.testing.assert_array_equal(several.span_end, one.span_end)


def test_equal_inputs_give_equal_bytes(real: Path, tmp_path: Path) -> None:
    encode_split(tmp_path, real / "dev-v1.1", real / "vocabulary")
    for name in ("contexts.arrow", "examples.arrow"):
        assert (tmp_path / name).read_bytes() == (real / "encoded" / name).read_bytes()


def test_facts_count_rows_and_tokens(tmp_path: Path) -> None:
    split = ingest(tmp_path / "split", ("An owl .", ["Who ?", "Owl ?"]), ("", ["Nothing"]))
    facts = encode(tmp_path, split, split, write_lines(tmp_path / "v.txt", "owl 1 2"))
    assert facts == {"contexts": 2, "questions": 3, "context_tokens": 3, "question_tokens": 5}
    examples = load_encoded(tmp_path / "encoded")
    assert examples.contexts.lengths.tolist() == [3, 0]
    assert examples.context_of.tolist() == [0, 0, 1]


def test_rejects_splits_missing_from_the_vocabulary(tmp_path: Path) -> None:
    split = ingest(tmp_path / "split", ("An owl", ["Who"]))
    other = ingest(tmp_path / "other", ("An emu", ["Who"]))
    encode(tmp_path, split, split, write_lines(tmp_path / "v.txt", "owl 1 2"))
    with pytest.raises(UserError, match="lacks 'emu' because it was built without this split"):
        encode_split(tmp_path / "encoded", other, tmp_path / "vocabulary")


def test_word_vectors_follow_words_and_default_to_zero(tmp_path: Path) -> None:
    split = ingest(tmp_path / "split", ("owl emu emu emu owl ant ant", ["ant ant bee"]))
    source = write_lines(tmp_path / "v.txt", "<unknown> 9 9", "owl 1 2", "emu 3 4")
    encode(tmp_path, split, split, source)
    words = pq.read_table(tmp_path / "vocabulary" / "words.parquet")["word"].to_pylist()
    matrix = load_word_vectors(tmp_path / "vocabulary", tmp_path / "vectors")
    assert words == ["<padding>", "<unknown>", "ant", "emu", "owl"]
    np.testing.assert_array_equal(matrix, [[0, 0], [0, 0], [0, 0], [3, 4], [1, 2]])
    assert matrix.dtype == np.float32
