"""The n-gram models that a language model is compared with."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from models.language_model.config import LMTraining
from models.language_model.streams import Tracks
from tasks.embeddings.contextual.ngram_baselines import Trigrams, ngram_perplexities
from tests.factories.language_models import cyclic_corpus

SIZE = 6
TRAINING = LMTraining(tracks=8, steps=5)
TEXT = np.random.default_rng(0).choice(SIZE, 400, p=[0.4, 0.3, 0.15, 0.1, 0.05, 0])


@pytest.mark.parametrize("context", [(0, 1), (2, 2), (4, 4), (5, 1), (0, 5), (5, 5)])
def test_probabilities_sum_to_one_after_any_context(context: tuple[int, int]) -> None:
    model = Trigrams.count(TEXT, SIZE)
    texts = [np.array([*context, word]) for word in range(SIZE)]
    probabilities = [model.probabilities(text)[0] for text in texts]
    assert sum(probabilities) == pytest.approx(1)
    assert min(probabilities) > 0


def test_discounts_and_counts_of_a_hand_worked_example() -> None:
    text = np.array([0, 1, 0, 1, 1])  # trigrams 010, 101, 011, once each
    model = Trigrams.count(text, 2)
    assert [order.discount for order in model.orders] == pytest.approx([1 / 3, 1, 1])
    # Word 1 ends two of the three distinct bigrams 10, 01, 11. Discounts of 1 leave all of the
    # higher orders' probability to the unigrams: (2 − 1/3)/3 + 1/3 · 2/3 · 1/2.
    assert model.probabilities(np.array([0, 1, 1]))[0] == pytest.approx(2 / 3)


def test_trigrams_learn_order_and_unigrams_do_not() -> None:
    train, held_out = cyclic_corpus(500), cyclic_corpus(50, seed=1)
    metrics = ngram_perplexities(train, held_out, TRAINING)
    assert metrics["held_out/perplexity_unigram"] > 6
    assert metrics["held_out/perplexity_trigram"] < 2.5
    less = ngram_perplexities(train, held_out, replace(TRAINING, max_words=100))
    assert less["held_out/perplexity_trigram"] > metrics["held_out/perplexity_trigram"]


def test_baselines_read_what_the_training_reads() -> None:
    """With few words, those of all files: here the corpus ends with words that it does not begin
    with."""
    train = cyclic_corpus(500)
    forward = np.repeat(np.array([1, 2], np.int32), 400)
    training = replace(TRAINING, max_words=80)
    tracks = Tracks(replace(train, forward=forward), training.tracks, training.steps)
    windows = tracks.total_steps(training)
    read = tracks.read_by(training)
    assert read.shape == (8, 11) and (read == 1).sum() == (read == 2).sum()
    trained = [tracks.window(number, torch.device("cpu")).targets[0] for number in range(windows)]
    np.testing.assert_array_equal(torch.cat(trained, 1), train.classes[read[:, 1:]])
    metrics = ngram_perplexities(tracks.corpus, tracks.corpus, training)
    assert metrics["held_out/perplexity_unigram"] < 2.5, "both words are known"


def test_trigrams_do_not_cross_texts() -> None:
    model = Trigrams.count(np.array([[0, 1, 2], [3, 4, 5]]), SIZE)
    assert len(model.orders[2].keys) == 2
