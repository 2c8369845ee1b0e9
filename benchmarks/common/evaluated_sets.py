"""Evaluations of sets of word vectors, from the flow `evaluate-embeddings`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.common.failures import result_or_exit
from flows.evaluate_embeddings import evaluate_embeddings
from tasks.embeddings.evaluation.evaluate import Queries
from tasks.embeddings.formats.store import history_of

Evaluation = dict[str, Any]


def evaluate_sets(
    vectors: Sequence[str], dataset: str, words: Sequence[str]
) -> dict[str, Evaluation]:
    """The evaluation of each set, by name, with the set's history and without its map."""
    queries = Queries(words=list(words))
    result = result_or_exit(evaluate_embeddings(list(vectors), dataset, queries, return_state=True))
    evaluations = {}
    for name, file, source in zip(result["metrics"], result["evaluations"], vectors, strict=True):
        evaluation = json.loads(Path(file).read_text(encoding="utf-8"))
        del evaluation["map"]
        evaluations[name] = {**history_of(source), **evaluation}
    return evaluations
