r"""Evaluates sets of word vectors next to GloVe 6B 50d, and times neighbour queries.

Usage: python -m benchmarks.embedding_evaluation SET … --dataset squad-v1.1-recovered
    [--out OUT.json]

SET is a set that the flow `evaluate-embeddings` accepts, such as
.bidaflow/embeddings/wiki-cbow/vectors.parquet. For each of the methods, it comes from a command
like this one:

    python -m flows.train_embeddings --corpus.files enwiki2015-64M --embedding.method cbow \
        --embedding.dimension 50 --name wiki-cbow

The flow evaluates all sets, or reuses its earlier results. Then the neighbours of single words are
looked up among GloVe's 400,000 words. With --out, a table (.md) and a picture (.png) are written
next to the JSON file.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.common.machine import machine, print_result, today
from benchmarks.common.tables import bars, markdown
from flows.common.user_errors import result_or_exit
from flows.evaluate_embeddings import evaluate_embeddings
from tasks.embeddings.evaluation.evaluate import Queries
from tasks.embeddings.evaluation.nearest_neighbors import Neighbours
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.embeddings.formats.store import history_of

Evaluation = dict[str, Any]
QUERIES = 50


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


def rows(evaluations: Mapping[str, Evaluation]) -> list[dict[str, str]]:
    """A row per metric, a column per set."""
    columns = {name: metrics(evaluation) for name, evaluation in evaluations.items()}
    titles = dict.fromkeys(title for column in columns.values() for title in column)
    return [
        {"": title} | {name: column.get(title, "–") for name, column in columns.items()}
        for title in titles
    ]


def metrics(evaluation: Evaluation) -> dict[str, str]:
    """All numbers of an evaluation, as text. Brackets hold the shares of pairs and questions that
    are covered, and of pairs with a word that is composed from n-grams."""
    cells = {"words": f"{evaluation['words']:,}", "dimension": str(evaluation["dimension"])}
    for band, result in evaluation["coverage"].items():
        both = f"{result['tokens_covered']:.1%} / {result['types_covered']:.1%}"
        cells[f"tokens / types covered, {band}"] = both
    for name, result in evaluation["similarity"].items():
        cells[f"{name}, Spearman"] = _with_coverage(result, result["spearman"], ".3f")
    for name, result in evaluation["analogies"].items():
        cells[f"analogies, {name}"] = _with_coverage(result, result["accuracy"], ".1%")
    for name, result in evaluation["bias"].items():
        if result["effect"] is not None:
            cells[f"WEAT, {name}"] = f"{result['effect']:.2f} (p {result['p']:.4f})"
    return cells


def _with_coverage(result: Mapping[str, Any], value: float | None, form: str) -> str:
    if value is None:
        return "–"
    composed = f", {result['composed']:.1%} composed" if result.get("composed") else ""
    return f"{value:{form}} ({result['covered']:.1%}{composed})"


def draw(evaluations: Mapping[str, Evaluation], file: Path) -> None:
    """Draw bars of similarity, coverage by frequency, and analogies by section."""
    parts = {
        ("similarity", "spearman"): "Similarity: Spearman",
        ("coverage", "types_covered"): "Words of the dataset covered, by frequency",
        ("analogies", "accuracy"): "Analogies: accuracy",
    }
    figure, all_axes = plt.subplots(3, 1, figsize=(9, 10), layout="constrained")
    for axes, ((part, metric), title) in zip(all_axes, parts.items(), strict=True):
        series = {
            name: {label: result[metric] for label, result in evaluation[part].items()}
            for name, evaluation in evaluations.items()
        }
        bars(axes, title, series)
    all_axes[0].legend(fontsize="small")
    figure.savefig(file, dpi=150)
    plt.close(figure)


def query(source: str) -> dict[str, Any]:
    """Milliseconds to find the ten neighbours of a word, for words from the whole set."""
    space = Neighbours(load_vectors(source))
    words = space.words[:: max(len(space.words) // QUERIES, 1)][:QUERIES]
    space.neighbours(words[0])
    milliseconds = []
    for word in words:
        began = time.perf_counter()
        space.neighbours(word)
        milliseconds.append(1000 * (time.perf_counter() - began))
    return {
        "words": len(space.words),
        "queries": len(milliseconds),
        "median_milliseconds": round(float(np.median(milliseconds)), 2),
        "slowest_milliseconds": round(max(milliseconds), 2),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vectors", nargs="+", metavar="SET", help="sets to evaluate next to GloVe")
    parser.add_argument("--dataset", required=True, help="dataset whose words are looked up")
    parser.add_argument("--words", nargs="*", default=[], help="words whose neighbours are listed")
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    arguments = parser.parse_args()
    evaluations = evaluate_sets([PACKAGED, *arguments.vectors], arguments.dataset, arguments.words)
    result = {
        "command": "python -m benchmarks.embedding_evaluation " + " ".join(sys.argv[1:]),
        "date": today(),
        "machine": machine(),
        "dataset": arguments.dataset,
        "query": query(PACKAGED),
        "sets": evaluations,
    }
    print_result(result, arguments.out)
    if arguments.out:
        table = markdown(rows(evaluations))
        arguments.out.with_suffix(".md").write_text(table, encoding="utf-8")
        draw(evaluations, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
