"""The steps between ingested splits and encoded ones."""

from pathlib import Path
from typing import Any

from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.text.build_vocabulary import VocabularyConfig, build_vocabulary
from tasks.text.split_texts import wanted_words


def write_vocabulary(
    folder: Path, splits: list[Path], source: str = PACKAGED, **parameters: Any
) -> tuple[Path, Path]:
    """Select the vectors of ingested splits, and build their vocabulary; returns both new folders.

    The first split is train. Unlike by default, no words but those of train are in the vocabulary:
    with the 400,000 of the packaged set, each test would take seconds.
    """
    vectors, vocabulary = folder / "vectors", folder / "vocabulary"
    for part in (vectors, vocabulary):
        part.mkdir()
    config = VocabularyConfig(**{"pretrained_words": 0, **parameters})
    wanted = wanted_words(splits[:1], config.lower_case)
    select_vectors(vectors, source, wanted, config.pretrained_words)
    build_vocabulary(vocabulary, splits[0], splits[1:], vectors, config)
    return vectors, vocabulary
