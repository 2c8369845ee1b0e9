"""The HTML report of the data check, which trains nothing, and the statistics that it shows."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from infra.artifacts.manifest import facts_of
from models.configs.variant import TrainingConfig
from tasks.data.answer_errors import ERROR_DESCRIPTIONS, diagnose
from tasks.data.ingested import batches, questions_with_ledger
from tasks.data.schema import Answer
from tasks.evaluation.evaluate import Gold
from tasks.evaluation.slices import bucket_names, has_oov_word, question_word
from tasks.reports.answer_samples import sample_answers
from tasks.reports.examples import Segment, marked_segments
from tasks.reports.html import View, write_page
from tasks.text.build_vocabulary import coverage, vector_rows
from tasks.text.coverage import covered, misfit, no_word_known
from tasks.text.length_limits import too_long
from tasks.text.split_texts import form_counts
from tasks.text.vocabulary import is_known

# Inclusive upper edges of the histograms of lengths in tokens.
LENGTH_EDGES = {
    "Contexts": (25, 50, 100, 150, 200, 300, 400, 800),
    "Questions": (5, 8, 10, 12, 15, 20, 30),
    "Answers": (1, 2, 3, 5, 10, 15, 30),
}
# Number of questions shown for each kind of error.
EXAMPLES = 3
# Number of random answers that are shown in their sentences.
ANSWERS_SHOWN = 10
# Number of the most frequent OOV tokens that are listed.
LISTED_OOV_TOKENS = 30
# Maximum number of characters of an answer that are marked in its context.
MAX_MARKED = 500
SUMMED = (
    *("questions", "contexts", "impossible", "exact", "widened", "repaired", "dropped"),
    "invalid_answers",
)


@dataclass(frozen=True)
class CheckedFiles:
    """The files of a dataset that could be ingested, and why training would refuse the data."""

    ingested: Mapping[str, Path]  # folder of the stage `ingest` by file name
    problems: Sequence[str]


@dataclass(frozen=True)
class CheckedVectors:
    """A set of word vectors, of which the files' words were selected."""

    name: str
    folder: Path


@dataclass
class DataStatistics:
    """Statistics of one or more ingested files, which are read batch by batch."""

    # How many texts have each length in tokens, by kind of text, a key of `LENGTH_EDGES`.
    lengths: dict[str, Counter[int]] = field(
        default_factory=lambda: {kind: Counter() for kind in LENGTH_EDGES}
    )
    question_words: Counter[str] = field(default_factory=Counter)
    # Questions and answers by kind of error.
    errors: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)  # repaired ones by kind of error
    # Questions with an error: their columns in `_errors`, their `file` and their `context`.
    examples: list[View] = field(default_factory=list)

    def add(self, name: str, folder: Path) -> None:
        """Add one ingested file, shown as `name`."""
        for batch in batches(folder / "contexts.parquet", ["token_starts"]):
            self.lengths["Contexts"].update(_lengths(batch))
        examples: list[View] = []
        for questions, alignments in questions_with_ledger(folder):
            self._add_questions(questions)
            for error in _errors(questions, alignments):
                kind = error["fault"]
                self.errors[kind] += 1
                self.repaired[kind] += error["repaired"] is not None
                if self.errors[kind] <= EXAMPLES:
                    examples.append(error)
        texts = _context_texts(folder, {error["context_id"] for error in examples})
        self.examples += [
            error | {"file": name, "context": texts[error["context_id"]]} for error in examples
        ]

    def _add_questions(self, questions: Any) -> None:
        self.lengths["Questions"].update(_lengths(questions))
        start, end = (questions.column(f"span_{side}").to_numpy() for side in ("start", "end"))
        self.lengths["Answers"].update((end - start + 1)[start >= 0].tolist())
        self.question_words.update(map(question_word, questions.column("question").to_pylist()))


def write_data_report(
    out: Path,
    dataset: str,
    files: CheckedFiles,
    vectors: CheckedVectors | None,
    training: TrainingConfig,
) -> dict[str, Any]:
    """Write report.html about the files of a dataset, and the texts that are too long for a
    training.

    Returns the totals of the facts, the number of questions and answers by kind of error
    ("faults"), random answers in their sentences ("samples"), how files were read ("read_as"), and
    sentences about texts that are too long ("too_long"), about what the vectors
    cover ("covered"), why they cover little ("misfit"), and about what training would refuse
    ("problems").
    """
    facts = {name: facts_of(folder) for name, folder in files.ingested.items()}
    statistics = DataStatistics()
    for name, folder in files.ingested.items():
        statistics.add(name, folder)
    totals = _totals(list(facts.values()))
    contexts, questions, answers = (statistics.lengths[kind] for kind in LENGTH_EDGES)
    sentences = too_long(contexts, questions, answers, training)
    found = None if vectors is None else _coverage(list(files.ingested.values()), vectors)
    problems = [*files.problems, *filter(None, [found and found["problem"]])]
    write_page(
        out / "report.html",
        "data_report.html.j2",
        dataset=dataset,
        totals=totals,
        files=facts,
        problems=problems,
        too_long=sentences,
        lengths=[
            (kind, max(lengths, default=0), _histogram(lengths, LENGTH_EDGES[kind]))
            for kind, lengths in statistics.lengths.items()
        ],
        question_words=statistics.question_words.most_common(),
        errors=_error_kinds(statistics),
        coverage=found,
    )
    return {
        "totals": totals,
        "faults": dict(statistics.errors),
        "too_long": sentences,
        "covered": found["covered"] if found else [],
        "misfit": found and found["misfit"],
        "problems": problems,
        "read_as": [
            f"{name}: {text}" for name, of_file in facts.items() for text in of_file["read_as"]
        ],
        "samples": sample_answers(list(files.ingested.values()), ANSWERS_SHOWN),
    }


def _totals(facts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The files' counts, summed, and their oracle scores, averaged over all questions."""
    totals = {key: sum(of_file[key] for of_file in facts) for key in SUMMED}
    return totals | {
        key: sum(of_file[key] * of_file["questions"] for of_file in facts)
        / max(totals["questions"], 1)
        for key in ("oracle_em", "oracle_f1")
    }


def _lengths(batch: Any) -> Any:
    return pc.list_value_length(batch.column("token_starts")).to_pylist()


def _histogram(lengths: Counter[int], edges: Sequence[int]) -> list[tuple[str, int]]:
    """The name of each bucket with these inclusive upper edges, and how many lengths it has."""
    buckets = np.searchsorted(edges, list(lengths))
    counts = np.bincount(buckets, list(lengths.values()), len(edges) + 1).astype(int)
    return list(zip(bucket_names(edges), counts.tolist(), strict=True))


def _errors(questions: Any, alignments: Any) -> list[View]:
    """The errors of the questions and of their answers, each with the question's columns."""
    columns = ["fault", "reason", "gold", "gold_start", "repaired", "answer_errors"]
    rows = zip(
        questions.select(["id", "question", "context_id"]).to_pylist(),
        alignments.select(columns).to_pylist(),
        strict=True,
    )
    return [
        question | error
        for question, row in rows
        # An error of the training answer is also among the errors of the answers.
        for error in (*row["answer_errors"], row)
        if error is not row or (row["fault"] is not None and row["gold"] is None)
    ]


def _context_texts(folder: Path, context_ids: set[int]) -> dict[int, str]:
    columns = ["context_id", "text"]
    selected = pc.field("context_id").isin(list(context_ids))
    return {
        row["context_id"]: row["text"]
        for batch in (batches(folder / "contexts.parquet", columns) if context_ids else ())
        for row in batch.filter(selected).to_pylist()
    }


def _error_kinds(statistics: DataStatistics) -> list[View]:
    """The kinds of errors that occur, the most frequent first, with examples."""
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


def _example(error: View) -> View:
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


def _coverage(folders: Sequence[Path], vectors: CheckedVectors) -> View:
    counts, rows = form_counts(folders), vector_rows(vectors.folder)
    oov = [form for form in counts if not is_known(form, rows, lower_case=True)]
    shares = coverage(counts, rows, lower_case=True)
    problem = no_word_known(vectors.name, shares)
    return {
        "source": vectors.name,
        "forms": len(counts),
        "shares": shares,
        "oov": [(form, counts[form]) for form in oov[:LISTED_OOV_TOKENS]],
        "covered": [covered(vectors.name, shares), _questions_without_vectors(folders, rows)],
        "misfit": None if problem else misfit(shares, lower_case=True),
        "problem": problem,
    }


def _questions_without_vectors(folders: Sequence[Path], rows: Container[str]) -> str:
    """In how many questions, and in the answers to how many, a word has no vector."""
    total = in_question = in_answer = 0
    for folder in folders:
        for batch in batches(folder / "questions.parquet", ["question", "answers"]):
            for row in batch.to_pylist():
                total += 1
                in_question += has_oov_word(row["question"], rows)
                in_answer += any(has_oov_word(answer["text"], rows) for answer in row["answers"])
    return (
        f"A word has no vector in {in_question:,} of {total:,} questions, and in the answers to "
        f"{in_answer:,}."
    )
