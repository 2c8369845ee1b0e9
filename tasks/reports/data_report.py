"""The HTML report on data that is checked without training."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from infra.artifacts.manifest import facts_of
from tasks.data.answer_errors import MEANINGS, diagnose
from tasks.data.schema import Answer
from tasks.evaluation.evaluate import Gold
from tasks.reports.data_statistics import Faulty, Survey
from tasks.reports.examples import Segment, marked_segments
from tasks.reports.html import TEMPLATES, Template
from tasks.text.build_vocabulary import coverage, form_counts, vector_rows, word_of

TEMPLATE = Template(TEMPLATES / "data_report.html.j2")
UNKNOWN_FORMS = 30
"""Number of the most frequent OOV tokens that are listed."""
LONGEST_MARK = 500
"""Maximum characters of an answer that are marked in its context."""

View = dict[str, Any]
SUMMED = ("questions", "contexts", "impossible", "exact", "widened", "repaired", "dropped")


def write_check(
    out: Path,
    dataset: str,
    ingested: Mapping[str, Path],
    broken: Sequence[tuple[str, str]],
    vectors: Path | None,
    max_rejected: float,
    lower_case: bool = True,
    template: Template = TEMPLATE,
) -> dict[str, Any]:
    """Write report.html about ingested files, by name, and about files that ingestion refused.

    `broken` has the refused files' names and error messages. Returns the totals of the facts, the
    names of files with too many rejected questions, and the number of questions by fault.
    """
    facts = {name: facts_of(folder) for name, folder in ingested.items()}
    survey = Survey()
    for name, folder in ingested.items():
        survey.add(name, folder)
    totals = {key: sum(one[key] for one in facts.values()) for key in SUMMED}
    over = [name for name, one in facts.items() if one["dropped"] > max_rejected * one["questions"]]
    view = {
        "dataset": dataset,
        "made": datetime.now().astimezone(),
        "totals": totals | _oracle(facts, totals["questions"]),
        "files": facts,
        "broken": broken,
        "over": over,
        "max_rejected": max_rejected,
        "lengths": _lengths(survey),
        "words": _bars(survey.words.most_common()),
        "faults": _faults(survey),
        "coverage": _coverage(list(ingested.values()), vectors, lower_case),
    }
    (out / "report.html").write_text(template.render(view), encoding="utf-8")
    return {"totals": view["totals"], "over": over, "faults": dict(survey.faults)}


def _oracle(facts: Mapping[str, Mapping[str, float]], questions: int) -> dict[str, float]:
    """The files' oracle scores, averaged over all questions."""
    return {
        key: sum(one[key] * one["questions"] for one in facts.values()) / max(questions, 1)
        for key in ("oracle_em", "oracle_f1")
    }


def _bars(rows: Sequence[tuple[str, int]]) -> list[View]:
    """Each row with its share of the total and its bar length, both in percent."""
    every, largest = sum(count for _, count in rows), max((count for _, count in rows), default=0)
    return [
        {
            "name": name,
            "count": count,
            "share": 100 * count / max(every, 1),
            "length": 100 * count / max(largest, 1),
        }
        for name, count in rows
    ]


def _lengths(survey: Survey) -> list[View]:
    kinds = {
        "Contexts": survey.contexts,
        "Questions": survey.questions,
        "Answers": survey.answers,
    }
    return [
        {"title": title, "longest": lengths.longest, "bars": _bars(lengths.rows())}
        for title, lengths in kinds.items()
    ]


def _faults(survey: Survey) -> list[View]:
    return [
        {
            "kind": kind,
            "meaning": MEANINGS[kind],
            "count": survey.faults[kind],
            "repaired": survey.repaired[kind],
            "examples": [_example(faulty) for faulty in survey.examples[kind]],
        }
        for kind in sorted(MEANINGS, key=lambda kind: -survey.faults[kind])
        if survey.faults[kind]
    ]


def _example(faulty: Faulty) -> View:
    line, context = faulty.line, faulty.context
    segments: list[Segment] = [(context[:LONGEST_MARK], False, False)]
    if line["gold"] is not None:
        given = Answer(text=line["gold"], answer_start=line["gold_start"])
        segments = _marked(given, context)
    return {
        "file": faulty.file,
        "id": faulty.question["id"],
        "question": faulty.question["question"],
        "gold": None if line["gold"] is None else line["gold"][:LONGEST_MARK],
        "reason": line["reason"],
        "segments": segments,
    }


def _marked(given: Answer, context: str) -> list[Segment]:
    """Segments of the context, with the annotated and the diagnosed answer position marked."""
    there = diagnose(given, context).mended
    stands = [Gold(there.text[:LONGEST_MARK], there.answer_start)] if there else []
    start = min(max(given.answer_start, 0), len(context))
    said = (start, min(start + min(len(given.text), LONGEST_MARK), len(context)))
    return marked_segments(context, stands, said)


def _coverage(folders: Sequence[Path], vectors: Path | None, lower_case: bool) -> View | None:
    if vectors is None or not folders:
        return None
    counts, rows = form_counts(folders), vector_rows(vectors)
    unknown = [form for form in counts if word_of(form, rows, lower_case) not in rows]
    return {
        "source": facts_of(vectors)["source"],
        "forms": len(counts),
        "shares": coverage(counts, rows, lower_case),
        "unknown": [(form, counts[form]) for form in unknown[:UNKNOWN_FORMS]],
    }
