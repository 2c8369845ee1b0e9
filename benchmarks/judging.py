r"""Evaluates sets of word vectors next to GloVe 6B 50d, and times neighbour queries.

Usage: python -m benchmarks.judging SET … --dataset squad-v1.1-recovered [--out OUT.json]

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

from benchmarks.common.machine import machine, tell, today
from benchmarks.common.tables import bars, markdown
from flows.common.user_errors import result_or_exit
from flows.evaluate_embeddings import evaluate_embeddings
from tasks.embeddings.evaluation.evaluate import Asked
from tasks.embeddings.evaluation.nearest_neighbors import Neighbours
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.embeddings.formats.store import history_of

Judgement = dict[str, Any]
QUERIES = 50


def judged(vectors: Sequence[str], dataset: str, words: Sequence[str]) -> dict[str, Judgement]:
    """The evaluation of each set, by name, with the set's history and without its map."""
    asked = Asked(words=list(words))
    result = result_or_exit(evaluate_embeddings(list(vectors), dataset, asked, return_state=True))
    told = {}
    for name, file, source in zip(result["metrics"], result["judgements"], vectors, strict=True):
        judgement = json.loads(Path(file).read_text(encoding="utf-8"))
        del judgement["map"]
        told[name] = {**history_of(source), **judgement}
    return told


def rows(judgements: Mapping[str, Judgement]) -> list[dict[str, str]]:
    """A row per measure, a column per set."""
    columns = {name: measures(judgement) for name, judgement in judgements.items()}
    titles = dict.fromkeys(title for told in columns.values() for title in told)
    return [
        {"": title} | {name: told.get(title, "–") for name, told in columns.items()}
        for title in titles
    ]


def measures(judgement: Judgement) -> dict[str, str]:
    """All numbers of an evaluation, as text. Brackets hold the shares of pairs and questions that
    are covered, and of pairs with a word that is composed from n-grams."""
    told = {"words": f"{judgement['words']:,}", "dimension": str(judgement["dimension"])}
    for band, found in judgement["coverage"].items():
        both = f"{found['tokens_covered']:.1%} / {found['types_covered']:.1%}"
        told[f"tokens / types covered, {band}"] = both
    for name, found in judgement["similarity"].items():
        told[f"{name}, Spearman"] = _with_cover(found, found["spearman"], ".3f")
    for name, found in judgement["analogies"].items():
        told[f"analogies, {name}"] = _with_cover(found, found["accuracy"], ".1%")
    for name, found in judgement["bias"].items():
        if found["effect"] is not None:
            told[f"WEAT, {name}"] = f"{found['effect']:.2f} (p {found['p']:.4f})"
    return told


def _with_cover(found: Mapping[str, Any], value: float | None, form: str) -> str:
    if value is None:
        return "–"
    spelt = f", {found['spelt']:.1%} spelt" if found.get("spelt") else ""
    return f"{value:{form}} ({found['covered']:.1%}{spelt})"


def draw(judgements: Mapping[str, Judgement], file: Path) -> None:
    """Draw bars of similarity, coverage by frequency, and analogies by section."""
    parts = {
        ("similarity", "spearman"): "Similarity: Spearman",
        ("coverage", "types_covered"): "Words of the dataset covered, by frequency",
        ("analogies", "accuracy"): "Analogies: accuracy",
    }
    figure, all_axes = plt.subplots(3, 1, figsize=(9, 10), layout="constrained")
    for axes, ((part, measure), title) in zip(all_axes, parts.items(), strict=True):
        found = {
            name: {label: each[measure] for label, each in judgement[part].items()}
            for name, judgement in judgements.items()
        }
        bars(axes, title, found)
    all_axes[0].legend(fontsize="small")
    figure.savefig(file, dpi=150)
    plt.close(figure)


def query(source: str) -> dict[str, Any]:
    """Milliseconds to find the ten neighbours of a word, for words from the whole set."""
    space = Neighbours(load_vectors(source))
    asked = space.words[:: max(len(space.words) // QUERIES, 1)][:QUERIES]
    space.neighbours(asked[0])
    took = []
    for word in asked:
        began = time.perf_counter()
        space.neighbours(word)
        took.append(1000 * (time.perf_counter() - began))
    return {
        "words": len(space.words),
        "queries": len(took),
        "median_milliseconds": round(float(np.median(took)), 2),
        "slowest_milliseconds": round(max(took), 2),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vectors", nargs="+")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--words", nargs="*", default=[], help="words whose neighbours are listed")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    judgements = judged([PACKAGED, *arguments.vectors], arguments.dataset, arguments.words)
    result = {
        "command": "python -m benchmarks.judging " + " ".join(sys.argv[1:]),
        "date": today(),
        "machine": machine(),
        "dataset": arguments.dataset,
        "query": query(PACKAGED),
        "sets": judgements,
    }
    tell(result, arguments.out)
    if arguments.out:
        table = markdown(rows(judgements))
        arguments.out.with_suffix(".md").write_text(table, encoding="utf-8")
        draw(judgements, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
