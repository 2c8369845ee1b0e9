"""The homonym test: its rule on vectors whose senses are known, and on whole sets."""

from pathlib import Path

import numpy as np
import pytest

from models.arrays import Float32Array
from tasks.embeddings.evaluation.evaluate import Queries
from tasks.embeddings.evaluation.homonyms import (
    HOMONYMS,
    Occurrence,
    mean_of_context,
    read_homonyms,
    sense_accuracy,
)
from tasks.embeddings.evaluation.nearest_neighbors import Neighbours
from tasks.embeddings.formats.word_vectors import WordSet


def occurrences(*senses: str) -> list[Occurrence]:
    return [Occurrence("club", sense, ["The", "club", "."], 1) for sense in senses]


def vectors(*rows: list[float]) -> list[Float32Array]:
    return [np.array(row, np.float32) for row in rows]


def test_list_has_the_word_at_its_position() -> None:
    read = read_homonyms(HOMONYMS)
    assert len(read) >= 40 * 2 * 6
    assert all(o.sentence[o.position].lower() == o.word for o in read)
    assert read[0].word == "bank" and {o.sense for o in read[:12]} == {"money", "river"}


def test_nearest_sense_leaves_the_occurrence_out() -> None:
    """Four of five are nearer to their own sense; the last "b" lies among "a"."""
    made = occurrences("a", "a", "b", "b", "b")
    result = sense_accuracy(made, vectors([1, 0], [2, 0.1], [0, 1], [0.1, 3], [1, 0.05]))
    assert result == {"accuracy": pytest.approx(4 / 5), "questions": 5, "covered": 1.0}
    # The second "b" is right only by its own vector.
    apart = vectors([1, 0], [1, 0.1], [1, 0], [0, 1])
    assert sense_accuracy(occurrences("a", "a", "b", "b"), apart)["accuracy"] == 0.5


def test_equal_vectors_score_at_chance() -> None:
    same = sense_accuracy(occurrences("a", "a", "b", "b"), vectors(*[[1.0, 2.0]] * 4))
    assert same["accuracy"] == 0.5
    some = [*vectors([1, 0], [1, 0.1]), None, *vectors([0, 1], [0.1, 1])]
    partly = sense_accuracy(occurrences("a", "a", "b", "b", "b"), some)
    assert partly == {"accuracy": 1.0, "questions": 5, "covered": 0.8}
    none = sense_accuracy(occurrences("a", "b"), [None, None])
    assert none["accuracy"] is None and none["covered"] == 0


def test_vectors_without_senses_score_at_chance() -> None:
    """Also if all vectors have much in common, as those of language models do."""
    made = occurrences(*"aaaaaa", *"bbbbbb")
    random = np.random.default_rng(0)
    drawn = (1 + random.standard_normal((400, len(made), 64))).astype(np.float32)
    scores = [sense_accuracy(made, list(rows))["accuracy"] for rows in drawn]
    assert np.mean(np.array(scores, np.float64)) == pytest.approx(0.5, abs=0.03)


def test_static_sets_use_the_words_around() -> None:
    words = ["golf", "ball", "club"]
    space = Neighbours(WordSet(words, np.array([[2, 0], [0, 3], [9, 9]], np.float32)))
    sentence = ["Golf", "club", "unseen", "ball"]
    mean = mean_of_context(space, Occurrence("club", "golf", sentence, 1))
    assert mean is not None
    np.testing.assert_allclose(mean, [0.5, 0.5])
    assert mean_of_context(space, Occurrence("club", "golf", ["club"], 0)) is None


def test_sentence_queries_need_the_word() -> None:
    assert Queries(sentences=["Club: the club met."]).sentences
    with pytest.raises(ValueError, match=r"a word and a sentence with it, such as `club: He"):
        Queries(sentences=["club: They met."])


def test_list_is_beside_the_code() -> None:
    assert isinstance(HOMONYMS, Path) and HOMONYMS.is_file()
