"""The homonym test for language models and for GloVe, and which words show the sense.

Usage: python -m benchmarks.studies.homonyms OUT_FOLDER BILM…

BILM is a language model as `bidaflow embeddings evaluate` takes it, such as the name of one
that was trained here. Besides the homonym itself, vectors of the words around it are scored: of
all other words of the sentence, and of at most two words on each side. They show how far
from it the words are that name the sense. Intervals resample the homonyms.

OUT_FOLDER gets homonyms.json and .md.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from benchmarks.common.tables import write_table
from models.arrays import Float32Array
from tasks.embeddings.contextual.select_bilm import read_bilm
from tasks.embeddings.contextual.source import find_bilm
from tasks.embeddings.evaluation.homonyms import (
    HOMONYMS,
    Occurrence,
    read_homonyms,
    sense_accuracy,
)
from tasks.embeddings.evaluation.nearest_neighbors import Neighbours, known_vectors
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.evaluation.bootstrap import Gain
from tasks.evaluation.significance import bootstrap

Vectors = Sequence[Float32Array | None]
NEAR = 2  # words on each side


def others(occurrence: Occurrence) -> list[int]:
    """The positions of the other words of the sentence."""
    return [i for i in range(len(occurrence.sentence)) if i != occurrence.position]


def near(occurrence: Occurrence) -> list[int]:
    """The positions of the words beside the homonym."""
    return [i for i in others(occurrence) if abs(i - occurrence.position) <= NEAR]


PLACES: dict[str, Callable[[Occurrence], list[int]]] = {
    "mean of the other words": others,
    f"mean of {NEAR} words on each side": near,
}


def bilm_vectors(
    spec: str, occurrences: Sequence[Occurrence]
) -> Iterator[tuple[tuple[str, str], Vectors]]:
    """Yield the vectors of each layer at the homonym, and around it, with the title of each."""
    model, _ = read_bilm(find_bilm(spec))
    layers = model.layers([occurrence.sentence for occurrence in occurrences])
    pairs = list(zip(occurrences, layers, strict=True))
    for k in range(model.bilm.config.layers_shape[0]):
        yield (f"{spec}, layer {k}", "the homonym"), [text[o.position, k] for o, text in pairs]
        for place, positions in PLACES.items():
            means = [text[positions(o), k].mean(axis=0) for o, text in pairs]
            yield (f"{spec}, layer {k}", place), means


def glove_vectors(
    occurrences: Sequence[Occurrence],
) -> Iterator[tuple[tuple[str, str], Vectors]]:
    """Yield the mean unit vectors of the words around the homonym, with a title."""
    space = Neighbours(load_vectors(PACKAGED))
    for place, positions in PLACES.items():
        known = [known_vectors(space, [o.sentence[i] for i in positions(o)]) for o in occurrences]
        yield (PACKAGED, place), [v.mean(axis=0) if len(v) else None for v in known]


def interval(occurrences: Sequence[Occurrence], vectors: Vectors) -> Gain:
    """The mean accuracy of the homonyms in percent, with its 95 % interval."""
    pairs = zip(occurrences, vectors, strict=True)
    scores = []
    for _, group in groupby(pairs, key=lambda pair: pair[0].word):
        own, own_vectors = zip(*group, strict=True)
        scores.append(sense_accuracy(own, own_vectors)["accuracy"])
    return bootstrap(100 * np.array([[score for score in scores if score is not None]]))


def row(
    title: tuple[str, str], occurrences: Sequence[Occurrence], vectors: Vectors
) -> dict[str, str]:
    """A row of the table."""
    result = sense_accuracy(occurrences, vectors)
    resampled = interval(occurrences, vectors)
    accuracy = result["accuracy"]
    return {
        "vectors": title[0],
        "of": title[1],
        "senses right": "–" if accuracy is None else f"{100 * accuracy:.1f} %",
        "95 %": f"{resampled.low:.1f} to {resampled.high:.1f}",
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    parser.add_argument("bilms", nargs="+", metavar="BILM")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    occurrences = read_homonyms(HOMONYMS)
    rows = [
        row(title, occurrences, vectors)
        for found in (
            *(bilm_vectors(spec, occurrences) for spec in arguments.bilms),
            glove_vectors(occurrences),
        )
        for title, vectors in found
    ]
    write_table(arguments.out, "homonyms", "benchmarks.studies.homonyms", rows)


if __name__ == "__main__":
    main()
