"""A self-contained HTML page that shows evaluations of sets of word vectors side by side."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.embeddings.evaluation.evaluate import EVALUATION
from tasks.reports.html import digits, percent, write_page

# A score is comparable if it is on at least this share of a test's pairs or questions, and on at
# least this number of them.
COMPARABLE, FEWEST = 0.5, 30
# The normal quantile of a 95 % confidence interval.
Z = 1.96

Cell = Mapping[str, Any]


def write_embeddings_report(
    out: Path,
    names: Sequence[str],
    folders: Sequence[Path],
    left_out: Sequence[str] = (),
    dataset: str | None = None,
) -> dict[str, Any]:
    """Write embeddings.html about one or more sets, from the results of `evaluate_vectors`.

    `left_out` names the published tests whose files are missing, and `dataset` the dataset whose
    coverage was measured.
    """
    evaluations = [
        {"name": name} | json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
        for name, folder in zip(names, folders, strict=True)
    ]
    sections = ("homonyms", "similarity", "analogies", "coverage", "bias", "neighbours", "asked")
    write_page(
        out / "embeddings.html",
        "embeddings.html.j2",
        sets=evaluations,
        left_out=left_out,
        dataset=dataset,
        verdict=verdict(evaluations, dataset),
        stars={
            "spearman": {
                name: best(cells, "spearman") for name, cells in _rows(evaluations, "similarity")
            },
            "accuracy": {
                name: best(cells, "accuracy") for name, cells in _rows(evaluations, "analogies")
            },
            "effect": {},
        },
        **{section: _rows(evaluations, section) for section in sections},
    )
    return {}


def _rows(evaluations: Sequence[Mapping[str, Any]], section: str) -> list[tuple[str, list[Any]]]:
    """The table rows of a section, with one cell per set."""
    names = dict.fromkeys(name for evaluation in evaluations for name in evaluation[section])
    return [(name, [evaluation[section].get(name) for evaluation in evaluations]) for name in names]


def best(cells: Sequence[Cell | None], metric: str) -> int | None:
    """The position of the best cell of a test if it is better than chance explains.

    Cells with too small a coverage are left out. None: the best cell does not differ significantly
    from each of the others, or fewer than two cells are comparable.
    """
    comparable = [
        (position, cell)
        for position, cell in enumerate(cells)
        if cell and _is_comparable(cell, metric)
    ]
    ranked = sorted(comparable, key=lambda entry: entry[1][metric], reverse=True)
    if len(ranked) < 2:
        return None
    (position, first), *others = ranked
    error = _standard_error(first, metric)
    is_better = all(
        first[metric] - other[metric] > Z * math.hypot(error, _standard_error(other, metric))
        for _, other in others
    )
    return position if is_better else None


def _is_comparable(cell: Cell, metric: str) -> bool:
    measured = cell[metric] is not None
    return measured and cell["covered"] >= COMPARABLE and _covered(cell) >= FEWEST


def _covered(cell: Cell) -> int:
    """The number of covered pairs or questions."""
    return int((cell["pairs"] if "pairs" in cell else cell["questions"]) * cell["covered"] + 0.5)


def _standard_error(cell: Cell, metric: str) -> float:
    """The standard error of a rank correlation over pairs, or of an accuracy over questions.

    That of a correlation is Fisher's, back-transformed; for Spearman's see Bonett & Wright (2000),
    "Sample size requirements for estimating Pearson, Kendall and Spearman correlations".
    """
    value, n = cell[metric], _covered(cell)
    if metric == "spearman":
        return float((1 - value**2) * math.sqrt((1 + value**2 / 2) / (n - 3)))
    return math.sqrt(value * (1 - value) / n)


# The verdict


def verdict(evaluations: Sequence[Mapping[str, Any]], dataset: str | None) -> str:
    """What the tests and the coverage say about the sets, in two or three sentences."""
    sentences = (_quality(evaluations), _homonyms(evaluations), _coverage(evaluations, dataset))
    return " ".join(filter(None, sentences))


def _homonyms(evaluations: Sequence[Mapping[str, Any]]) -> str:
    """The best accuracy of each set on the homonym test, if a language model is among them."""
    if not any("layer" in entry for entry in evaluations):
        return ""
    shares = []
    for entry in evaluations:
        accuracies = {name: cell["accuracy"] for name, cell in entry["homonyms"].items()}
        measured = {name: share for name, share in accuracies.items() if share is not None}
        if measured:
            name = max(measured, key=lambda k: measured[k])
            shares.append(f"{percent(measured[name])} {entry['name']} ({name})")
    return f"Of the homonyms' senses, {', '.join(shares)} are right; chance is 50 %."


def _quality(evaluations: Sequence[Mapping[str, Any]]) -> str:
    """How the sets compare on the similarity tests on which all of them are comparable."""
    tests = [
        [cell["spearman"] for cell in cells]
        for _, cells in _rows(evaluations, "similarity")
        if all(cell and _is_comparable(cell, "spearman") for cell in cells)
    ]
    if not tests:
        whom = "the set has" if len(evaluations) == 1 else "all sets have"
        return (
            f"No similarity test could be used, because there is none of whose pairs {whom} at "
            f"least {percent(COMPARABLE)} (and {FEWEST})."
        )
    means = [sum(scores) / len(tests) for scores in zip(*tests, strict=True)]
    over = f"over {len(tests)} similarity test{'s' if len(tests) > 1 else ''}"
    ranked = sorted(zip(means, evaluations, strict=True), key=lambda entry: -entry[0])
    top = f"{ranked[0][1]['name']} has a mean rank correlation of {digits(ranked[0][0], 2)}"
    others = ", ".join(f"{entry['name']} {digits(mean, 2)}" for mean, entry in ranked[1:])
    compared = f"; the others: {others}" if others else ""
    return f"{top} with human scores {over}{compared}."


def _coverage(evaluations: Sequence[Mapping[str, Any]], dataset: str | None) -> str:
    """How much of the dataset the sets cover."""
    covered = {
        entry["name"]: entry["coverage"]["all"]["tokens_covered"]
        for entry in evaluations
        if entry["coverage"]
    }
    if not covered:
        return "No dataset was named, so coverage was not measured."
    shares = ", ".join(f"{percent(share)} ({name})" for name, share in covered.items())
    only = next(iter(covered.values()))
    return (
        f"Of the tokens of {dataset or 'the dataset'}, "
        f"{percent(only) if len(covered) == 1 else shares} have a vector."
    )
