r"""Evaluates sets of word vectors next to GloVe 6B 50d, and times neighbour queries.

The study of 2026-11-22: results in results/embeddings/evaluated.json and .md, picture in
docs/embeddings.png. Each set comes from a command like the first one:

    bidaflow embeddings train --corpus.files enwiki2015-64M --embedding.method cbow \
        --embedding.dimension 50 --name wiki-cbow
    python -m benchmarks.studies.embedding_evaluation OUT.json squad-v1.1-recovered \
        .bidaflow/embeddings/wiki-{cbow,skipgram,fasttext,glove}/vectors.parquet

A table (.md) and a picture (.png) are written next to OUT.json.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.common.evaluated_sets import evaluate_sets
from benchmarks.common.figures import save
from benchmarks.common.machine import machine, print_result, today
from benchmarks.common.tables import bars, markdown
from tasks.embeddings.evaluation.nearest_neighbors import Neighbours
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import PACKAGED

WORDS = ("diabetes", "court", "printer", "river")
"""Words whose neighbours are listed."""
QUERIES = 50
PARTS = {
    "Similarity: Spearman": ("similarity", "spearman"),
    "Words of the dataset covered, by frequency": ("coverage", "types_covered"),
    "Analogies: accuracy": ("analogies", "accuracy"),
}


def metrics(evaluation: Mapping[str, Any]) -> dict[str, str]:
    """All numbers of an evaluation, as text. Brackets hold the shares of pairs and questions that
    are covered, and of pairs with a word that is composed from n-grams."""
    cells = {"words": f"{evaluation['words']:,}", "dimension": str(evaluation["dimension"])}
    for band, result in evaluation["coverage"].items():
        both = f"{result['tokens_covered']:.1%} / {result['types_covered']:.1%}"
        cells[f"tokens / types covered, {band}"] = both
    for name, result in evaluation["similarity"].items():
        cells[f"{name}, Spearman"] = with_coverage(result, result["spearman"], ".3f")
    for name, result in evaluation["analogies"].items():
        cells[f"analogies, {name}"] = with_coverage(result, result["accuracy"], ".1%")
    for name, result in evaluation["bias"].items():
        if result["effect"] is not None:
            cells[f"WEAT, {name}"] = f"{result['effect']:.2f} (p {result['p']:.4f})"
    return cells


def with_coverage(result: Mapping[str, Any], value: float | None, form: str) -> str:
    """A value with the shares that it is about; a dash for None."""
    if value is None:
        return "–"
    composed = f", {result['composed']:.1%} composed" if result.get("composed") else ""
    return f"{value:{form}} ({result['covered']:.1%}{composed})"


def rows(evaluations: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """A row per metric, a column per set."""
    columns = {name: metrics(evaluation) for name, evaluation in evaluations.items()}
    titles = dict.fromkeys(title for column in columns.values() for title in column)
    return [
        {"": t} | {name: column.get(t, "–") for name, column in columns.items()} for t in titles
    ]


def draw(evaluations: Mapping[str, Mapping[str, Any]], file: Path) -> None:
    """Draw bars of similarity, coverage by frequency, and analogies by section."""
    figure, all_axes = plt.subplots(3, 1, figsize=(9, 10), layout="constrained")
    for axes, (title, (part, metric)) in zip(all_axes, PARTS.items(), strict=True):
        series = {
            name: {label: result[metric] for label, result in evaluation[part].items()}
            for name, evaluation in evaluations.items()
        }
        bars(axes, title, series)
    all_axes[0].legend(fontsize="small")
    save(figure, file)


def query(source: str) -> dict[str, float]:
    """Milliseconds to find the ten neighbours of a word, for words from the whole set."""
    space = Neighbours(load_vectors(source))
    words = space.words[:: max(len(space.words) // QUERIES, 1)][:QUERIES]
    times = [perf_counter()]
    for word in [words[0], *words]:  # the first query is not counted
        space.neighbours(word)
        times.append(perf_counter())
    milliseconds = 1000 * np.diff(times)[1:]
    return {
        "words": len(space.words),
        "queries": len(words),
        "median_milliseconds": round(float(np.median(milliseconds)), 2),
        "slowest_milliseconds": round(float(milliseconds.max()), 2),
    }


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    out, dataset, *vectors = sys.argv[1:]
    evaluations = evaluate_sets([PACKAGED, *vectors], dataset, WORDS)
    result = {
        "command": "python -m benchmarks.studies.embedding_evaluation " + " ".join(sys.argv[1:]),
        "date": today(),
        "machine": machine(),
        "dataset": dataset,
        "query": query(PACKAGED),
        "sets": evaluations,
    }
    print_result(result, Path(out))
    Path(out).with_suffix(".md").write_text(markdown(rows(evaluations)), encoding="utf-8")
    draw(evaluations, Path(out).with_suffix(".png"))
