"""Small corpora for tests."""

from collections import Counter
from pathlib import Path

import numpy as np

from tasks.embeddings.training.corpus import write_counts


def corpus_of(folder: Path, lines: list[list[str]]) -> Path:
    """Write a corpus in the layout of `prepare_corpus`; returns the folder."""
    text = "".join(" ".join(line) + "\n" for line in lines)
    (folder / "corpus.txt").write_text(text, encoding="utf-8")
    write_counts(folder / "words.parquet", Counter(word for line in lines for word in line))
    return folder


ANIMALS = ["owlet", "badger", "otter", "weasel", "lynx"]
TOOLS = ["hammer", "spanner", "chisel", "plane", "anvil"]


def two_topic_sentences(lines: int = 400, length: int = 20) -> list[list[str]]:
    """Sentences with words for animals or for tools, never both, mixed with common words."""
    rng = np.random.default_rng(7)
    sentences = []
    for number in range(lines):
        topic = [ANIMALS, TOOLS][number % 2]
        sentences.append(rng.choice([*topic, "the", "of"], length).tolist())
    return sentences


def shuffled_topics(lines: int) -> list[list[str]]:
    """The same sentences in random order, so that a sentence's topic does not depend on the one
    before it."""
    sentences = two_topic_sentences(lines)
    return [sentences[i] for i in np.random.default_rng(0).permutation(lines)]
