"""The HTML report of the data check, which trains nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.artifacts.manifest import facts_of
from tasks.data.answer_errors import ERROR_DESCRIPTIONS, diagnose
from tasks.data.schema import Answer
from tasks.evaluation.evaluate import Gold
from tasks.reports.data_statistics import LENGTH_EDGES, DataStatistics, ErrorExample, histogram
from tasks.reports.examples import Segment, marked_segments
from tasks.reports.html import View, write_page
from tasks.text.build_vocabulary import coverage, form_counts, vector_rows
from tasks.text.vocabulary import is_known

# Number of the most frequent OOV tokens that are listed.
LISTED_OOV_TOKENS = 30
# Maximum number of characters of an answer that are marked in its context.
MAX_MARKED = 500

SUMMED = ("questions", "contexts", "impossible", "exact", "widened", "repaired", "dropped")


@dataclass(frozen=True)
class CheckedFiles:
    """The files of a dataset that were ingested, and those that could not be."""

    ingested: Mapping[str, Path]  # folder of the stage `ingest` by file name
    broken: Sequence[tuple[str, str]]  # (file name, error message)


def write_data_report(
    out: Path,
    dataset: str,
    files: CheckedFiles,
    vectors: Path | None,
    max_rejected: float,
) -> dict[str, Any]:
    """Write report.html about the files of a dataset.

    Returns the totals of the facts, the names of files with too many rejected questions ("over"),
    and the number of questions by kind of error ("faults").
    """
    facts = {name: facts_of(folder) for name, folder in files.ingested.items()}
    statistics = DataStatistics()
    for name, folder in files.ingested.items():
        statistics.add(name, folder)
    totals = {key: sum(of_file[key] for of_file in facts.values()) for key in SUMMED}
    over_limit = [
        name
        for name, of_file in facts.items()
        if of_file["dropped"] > max_rejected * of_file["questions"]
    ]
    view = {
        "dataset": dataset,
        "totals": totals | _oracle(facts, totals["questions"]),
        "files": facts,
        "broken": files.broken,
        "over_limit": over_limit,
        "max_rejected": max_rejected,
        "lengths": [
            (kind, max(lengths, default=0), histogram(lengths, LENGTH_EDGES[kind]))
            for kind, lengths in statistics.lengths.items()
        ],
        "question_words": statistics.question_words.most_common(),
        "errors": _errors(statistics),
        "coverage": _coverage(list(files.ingested.values()), vectors),
    }
    write_page(out / "report.html", "data_report.html.j2", view)
    return {"totals": view["totals"], "over": over_limit, "faults": dict(statistics.errors)}


def _oracle(facts: Mapping[str, Mapping[str, float]], questions: int) -> dict[str, float]:
    """The files' oracle scores, averaged over all questions."""
    return {
        key: sum(of_file[key] * of_file["questions"] for of_file in facts.values())
        / max(questions, 1)
        for key in ("oracle_em", "oracle_f1")
    }


def _errors(statistics: DataStatistics) -> list[View]:
    return [
        {
            "kind": kind,
            "description": ERROR_DESCRIPTIONS[kind],
            "count": statistics.errors[kind],
            "repaired": statistics.repaired[kind],
            "examples": [
                _example(error) for error in statistics.examples if error["fault"] == kind
            ],
        }
        for kind in sorted(ERROR_DESCRIPTIONS, key=lambda kind: -statistics.errors[kind])
        if statistics.errors[kind]
    ]


def _example(error: ErrorExample) -> View:
    gold, context = error["gold"], error["context"]
    if gold is None:
        return error | {"segments": [(context[:MAX_MARKED], False, False)]}
    answer = Answer(text=gold, answer_start=error["gold_start"])
    return error | {"gold": gold[:MAX_MARKED], "segments": _marked(answer, context)}


def _marked(answer: Answer, context: str) -> list[Segment]:
    """Segments of the context, with the annotated and the corrected answer position marked."""
    correction = diagnose(answer, context).correction
    matches = [Gold(correction.text[:MAX_MARKED], correction.answer_start)] if correction else []
    start = min(max(answer.answer_start, 0), len(context))
    annotated = (start, min(start + min(len(answer.text), MAX_MARKED), len(context)))
    return marked_segments(context, matches, annotated)


def _coverage(folders: Sequence[Path], vectors: Path | None) -> View | None:
    if vectors is None or not folders:
        return None
    counts, rows = form_counts(folders), vector_rows(vectors)
    oov = [form for form in counts if not is_known(form, rows, lower_case=True)]
    return {
        "source": facts_of(vectors)["source"],
        "forms": len(counts),
        "shares": coverage(counts, rows, lower_case=True),
        "oov": [(form, counts[form]) for form in oov[:LISTED_OOV_TOKENS]],
    }
