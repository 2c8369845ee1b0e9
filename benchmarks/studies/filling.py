"""Time to fill GloVe 6B with new words: by rotation of another set, and from contexts in a corpus.

Usage: python -m benchmarks.studies.filling [--words 400000] [--dimension 50] [--repeats 3]
           [--out OUT.json]

Both ways add the same number of new words. The other set has these, and the 20,000 most frequent
words of GloVe, with random vectors of that dimension. In the generated corpus, each new word occurs
five times, in lines of 20 words of which 16 are frequent words of GloVe. The times include reading
and writing the sets; reading the texts of a corpus is not included, as that is a step of its own.
The first run of the contexts may compile; the fastest run counts.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.machine import machine, peak_mib, print_result, today
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import PACKAGED, VECTORS, packaged
from tasks.embeddings.formats.store import write_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.embeddings.training.config import EmbeddingSettings
from tasks.embeddings.training.corpus import write_counts
from tasks.embeddings.training.fill import MAX_ANCHORS, fill_from_corpus, fill_from_set

OCCURRENCES, LINE, NEW_IN_LINE = 5, 20, 4
BLOCK = 20_000  # lines that are generated at a time


def write_set(folder: Path, frequent: list[str], new: list[str], dimension: int) -> Path:
    """Write a set with random vectors for both lists of words; returns its file."""
    words = [*frequent, *new]
    vectors = np.random.default_rng(0).standard_normal((len(words), dimension), np.float32)
    write_vectors(folder, WordSet(words, vectors), {"method": "random"})
    return folder / VECTORS


def write_corpus(folder: Path, frequent: list[str], new: list[str]) -> Path:
    """Write a prepared corpus in which each new word occurs `OCCURRENCES` times; returns its
    folder."""
    random = np.random.default_rng(0)
    occurrences = random.permutation(np.repeat(np.arange(len(new)), OCCURRENCES))
    lines = len(occurrences) // NEW_IN_LINE
    weights = 1 / np.arange(1, len(frequent) + 1)  # Zipf's law
    bounds = np.cumsum(weights) / weights.sum()
    counts: Counter[str] = Counter(new[row] for row in occurrences[: lines * NEW_IN_LINE])
    with (folder / "corpus.txt").open("w", encoding="utf-8") as file:
        for first in range(0, lines, BLOCK):
            size = min(BLOCK, lines - first)
            drawn = np.searchsorted(bounds, random.random((size, LINE - NEW_IN_LINE)))
            rows = occurrences[first * NEW_IN_LINE :][: size * NEW_IN_LINE].reshape(size, -1)
            for known_row, new_row in zip(drawn.tolist(), rows.tolist(), strict=True):
                known = [frequent[row] for row in known_row]
                counts.update(known)
                file.write(" ".join([*known, *(new[row] for row in new_row)]) + "\n")
    write_counts(folder / "words.parquet", counts)
    manifest = {"digest": "", "facts": {"words": lines * LINE}}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def fastest(fill: Callable[[Path], dict[str, Any]], folder: Path, repeats: int) -> dict[str, Any]:
    """The fill's facts, with the seconds of each run and of the fastest one."""
    seconds = []
    for number in range(repeats):
        out = folder / str(number)
        out.mkdir(parents=True)
        began = time.perf_counter()
        facts = fill(out)
        seconds.append(round(time.perf_counter() - began, 2))
        print(folder.name, seconds[-1], "s", flush=True)
    kept = {name: facts[name] for name in ("words", "filled", "anchors", "dimension")}
    return {**kept, "seconds": min(seconds), "runs": seconds}


def measure(folder: Path, words: int, dimension: int, repeats: int) -> dict[str, Any]:
    """The times of both ways, for so many new words."""
    frequent = load_vectors(PACKAGED).words[:MAX_ANCHORS]
    new = [f"new-word-{number}" for number in range(words)]
    base = packaged()
    for name in ("set", "corpus"):
        (folder / name).mkdir()
    own = write_set(folder / "set", frequent, new, dimension)
    corpus = write_corpus(folder / "corpus", frequent, new)
    settings = EmbeddingSettings(min_count=1)
    ways: dict[str, Callable[[Path], dict[str, Any]]] = {
        "rotation": lambda out: fill_from_set(out, base, own),
        "contexts": lambda out: fill_from_corpus(out, base, corpus, settings),
    }
    return {name: fastest(fill, folder / name, repeats) for name, fill in ways.items()}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--words", type=int, default=400_000, help="new words")
    parser.add_argument("--dimension", type=int, default=50, help="of the other set")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each way")
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ways = measure(Path(folder), options.words, options.dimension, options.repeats)
    result = {
        "command": "python -m benchmarks.studies.filling " + " ".join(sys.argv[1:]),
        "date": today(),
        "machine": machine(),
        "ways": ways,
        "peak_mib": peak_mib(),
    }
    print_result(result, options.out)


if __name__ == "__main__":
    main()
