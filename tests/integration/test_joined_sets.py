"""Several sets side by side, from the join to the matrix that a model reads."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from flows.common.display_names import names_of_vectors
from flows.common.parameters import VectorParameters
from flows.common.vectors import vectors_for
from infra.errors import UserError
from models.configs.presets import preset
from tasks.embeddings.formats.select import join, select_vectors
from tasks.embeddings.formats.source import JoinedVectors
from tasks.embeddings.formats.store import history_of, load_word_vectors, part_sizes, read_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tests.factories.vectors import write_lines


def test_words_of_all_sets_are_joined_with_flags() -> None:
    a = WordSet(["x", "y"], np.array([[1, 2], [3, 4]], np.float32))
    b = WordSet(["z", "x", "y"], np.array([[5], [6], [0]], np.float32))
    joined = join([a, b])
    assert joined.words == ["x", "z", "y"]
    expected = [[1, 2, 1, 6, 1], [0, 0, 0, 5, 1], [3, 4, 1, 0, 1]]
    np.testing.assert_array_equal(joined.vectors, expected)


def test_set_with_plain_quotes_has_curly_ones_too() -> None:
    plain = WordSet(["'s", "--"], np.array([[1], [2]], np.float32))
    curly = WordSet(["’s", "–"], np.array([[3], [4]], np.float32))
    joined = join([plain, curly])
    np.testing.assert_array_equal(joined.vectors[joined.rows["’s"]], [1, 1, 3, 1])
    np.testing.assert_array_equal(joined.vectors[joined.rows["–"]], [2, 1, 4, 1])
    np.testing.assert_array_equal(joined.vectors[joined.rows["'s"]], [1, 1, 0, 0])


@pytest.fixture
def selected(tmp_path: Path) -> Path:
    """A folder of two joined sets, and a vocabulary with one OOV word."""
    a = write_lines(tmp_path / "a.txt", "the 1 2", "of 3 4", "owl 5 6")
    b = write_lines(tmp_path / "b.txt", "lynx 1 -1 1", "the 7 8 9", "otter 1 1 1")
    out = tmp_path / "out"
    out.mkdir()
    source = JoinedVectors((Path(a), Path(b)))
    facts = select_vectors(out, source, {"owl", "the"}, keep_first=1)
    assert (facts["source"], facts["dimension"]) == ("a.txt+b.txt", 7)
    words = ["<padding>", "<unknown>", "lynx", "owl", "lost"]
    pq.write_table(pa.table({"word": words}), out / "words.parquet")
    return out


def test_keeps_wanted_and_first_words_of_each_set(selected: Path) -> None:
    words, matrix = read_vectors(selected)
    assert words.to_pylist() == ["the", "lynx", "owl"]
    np.testing.assert_array_equal(matrix[0], [1, 2, 1, 7, 8, 9, 1])
    assert history_of(selected / "vectors.parquet")["method"] == "joined"
    assert part_sizes(selected) == (2, 3)


def test_first_words_have_the_vectors_of_all_sets(tmp_path: Path) -> None:
    general = write_lines(tmp_path / "a.txt", "the 1", "of 2", "sepsis 3", "-- 4")
    domain = write_lines(tmp_path / "b.txt", "sepsis 5", "– 6", "the 7")
    select_vectors(tmp_path, JoinedVectors((Path(general), Path(domain))), set(), keep_first=2)
    words, matrix = read_vectors(tmp_path)
    vectors = dict(zip(words.to_pylist(), matrix.tolist(), strict=True))
    assert vectors["sepsis"] == [3, 1, 5, 1] and vectors["the"] == [1, 1, 7, 1]
    assert vectors["–"] == [4, 1, 6, 1], "the general set has it with a plain dash"
    assert vectors["of"] == [2, 1, 0, 0]


def test_random_vectors_of_unknown_words_have_no_flags(selected: Path) -> None:
    zero = load_word_vectors(selected, selected)
    np.testing.assert_array_equal(zero[3], [5, 6, 1, 0, 0, 0, 0])
    assert not zero[4].any()
    random = load_word_vectors(selected, selected, "random")
    np.testing.assert_array_equal(random[:4][[0, 2, 3]], zero[:4][[0, 2, 3]])
    assert random[4, [0, 1, 3, 4, 5]].all() and not random[4, [2, 6]].any()


def test_joined_sets_are_named_and_checked() -> None:
    joined = VectorParameters(source="glove-6b-50d+sets/support/vectors.parquet")
    assert names_of_vectors([joined, VectorParameters()]) == [
        "glove-6b-50d+support",
        "glove-6b-50d",
    ]
    trained = VectorParameters(source="glove-6b-50d+skipgram", corpus_dataset="tiny")
    assert trained.method == "skipgram"
    for source, message in (
        ("glove-6b-50d+none", "can't be joined"),
        ("cbow+skipgram", "several methods"),
        ("glove-6b-50d+glove-6b-50d", "joins a set twice"),
        ("glove-6b-50d+nowhere", "unknown vectors 'nowhere'"),
    ):
        with pytest.raises(ValidationError, match=message):
            VectorParameters(source=source)


def test_joined_sets_have_no_subwords() -> None:
    joined = VectorParameters(source="glove-6b-50d+a.txt")
    assert vectors_for([preset("char")], joined) == joined
    with pytest.raises(UserError, match="has no n-grams"):
        vectors_for([preset("char").with_changes(unknown_words="subword")], joined)


def test_file_with_a_plus_in_its_name_is_one_set(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a+b.txt", "owl 1 2")
    assert VectorParameters(source=file).parts == [file]
