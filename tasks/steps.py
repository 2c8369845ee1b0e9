"""The steps of the pipeline as cached Prefect tasks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.encoding import encode_split
from tasks.sources import fetch, generate_tiny, ingest_files
from tasks.stages import outside_stage, stage
from tasks.training import train_variant
from tasks.vectors import select_vectors
from tasks.vocabulary import build_vocabulary, wanted_words


def vectors_for_splits(
    out: Path, source: str | Path, splits: Sequence[Path], lower_case: bool, keep_first: int
) -> dict[str, Any]:
    """Pick the vectors of the splits' words, and the source's first ones for later questions."""
    return select_vectors(out, str(source), wanted_words(splits, lower_case), keep_first)


generating = stage(generate_tiny, "generate-tiny")
fetching = outside_stage(fetch, "fetch")
ingesting = stage(ingest_files, "ingest")
selecting_vectors = stage(vectors_for_splits, "select-vectors")
building_vocabulary = stage(build_vocabulary, "build-vocabulary")
encoding = stage(encode_split, "encode")
training = stage(train_variant, "train")
