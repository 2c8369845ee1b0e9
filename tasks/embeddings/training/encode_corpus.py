"""Encodes a prepared corpus as word ids in reading order, for the training of language models."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq

from infra.artifacts.manifest import facts_of
from infra.errors import UserError
from infra.reporting.progress_reporter import ProgressReporter
from models.language_model.characters import border_ids, encode_words
from models.language_model.corpus import BORDER, Corpus
from tasks.embeddings.training.corpus import read_paragraphs

Part = Literal["train", "held-out"]
TRAIN: Part = "train"
HELD_OUT: Part = "held-out"
CHARACTERS = "characters.npy"
ID = np.dtype("<i4")
# Every so many paragraphs, one is held out: 1 %, or less of a large corpus.
MIN_INTERVAL = 100
HELD_OUT_WORDS = 50_000
PARAGRAPHS_PER_REPORT = 10_000
UNKNOWN, FIRST_WORD = 1, 2  # classes of the softmax


def encode_corpus(out: Path, corpus: Path) -> dict[str, Any]:
    """Write the ids of the paragraphs to train on and of those held out, and the words' characters.

    Each part has two files of 32-bit ids: the paragraphs forwards, and each reversed. A paragraph
    begins with the id 0; a word's id is 1 + its row in the corpus's words.parquet.

    Raises:
        UserError: the corpus has fewer than 100 paragraphs, so that none can be held out.
    """
    facts = facts_of(corpus)
    words = read_words(corpus)
    interval = max(MIN_INTERVAL, facts["words"] // HELD_OUT_WORDS)
    if facts["paragraphs"] < interval:
        raise UserError(
            f"The corpus has {facts['paragraphs']:,} paragraphs, but a language model needs at "
            f"least {interval:,}, one of which is held out. Add texts, with one paragraph per line."
        )
    ids = {word: number for number, word in enumerate(words, 1)}
    counts = {TRAIN: 0, HELD_OUT: 0}
    with ProgressReporter("encoding", facts["words"], "words") as progress, ExitStack() as stack:
        files = {
            part: [stack.enter_context(file.open("wb")) for file in _files(out, part)]
            for part in counts
        }
        for number, line in enumerate(read_paragraphs(corpus), 1):
            part = HELD_OUT if number % interval == 0 else TRAIN
            paragraph = np.array([BORDER, *(ids[word] for word in line)], ID)
            reverse = np.concatenate([paragraph[:1], paragraph[:0:-1]])
            for file, tokens in zip(files[part], (paragraph, reverse), strict=True):
                file.write(tokens.tobytes())
            counts[part] += len(line)
            if number % PARAGRAPHS_PER_REPORT == 0:
                progress.report(sum(counts.values()))
    characters = np.concatenate([border_ids()[:1], encode_words(words)])
    np.save(out / CHARACTERS, characters)
    return {"words": counts[TRAIN], "held_out_words": counts[HELD_OUT], "interval": interval}


def _files(folder: Path, part: Part) -> list[Path]:
    """The files of a part's ids, forwards and backwards."""
    return [folder / f"{part}-{direction}.bin" for direction in ("forward", "backward")]


def read_words(corpus: Path) -> list[str]:
    """The distinct words of a prepared corpus, most frequent first."""
    words: Any = pq.read_table(corpus / "words.parquet", columns=["word"])["word"]
    return list(words.to_pylist())


@dataclass(frozen=True)
class EncodedCorpus:
    """The folders of a prepared corpus and of its encoding."""

    prepared: Path
    encoded: Path

    def load(self, part: Part, vocabulary: Sequence[str]) -> Corpus:
        """A part of the corpus for a model that predicts these words; arrays are memory-mapped."""
        classes = {word: number for number, word in enumerate(vocabulary, FIRST_WORD)}
        of_words = [classes.get(word, UNKNOWN) for word in read_words(self.prepared)]
        forward, backward = (np.memmap(file, ID, "r") for file in _files(self.encoded, part))
        return Corpus(
            forward,
            backward,
            characters=np.load(self.encoded / CHARACTERS, mmap_mode="r"),
            border_end=border_ids()[1],
            classes=np.array([BORDER, *of_words], np.int32),
        )
