r"""What each kind of negatives brings, and how easily shared words tell it.

    python -m benchmarks.negatives OUT_FOLDER --overlap-only FILE

makes negatives of each kind from the answerable questions of a SQuAD-format file. A logistic
regression on features of the words that question and context share must tell them from the
questions that they were made from, and unanswerable questions that people wrote from a fifth of the
answerable ones. It is trained on half of the articles and tested on the others. An area under the
ROC curve near 1 means that a kind is too easy; a dash, that there are too few questions to tell.
This takes minutes, and writes overlap.json and .md.

    python -m benchmarks.negatives OUT_FOLDER --data.dataset squad-v2.0-recovered --variants char \
      --training.epochs 3 …

runs `bidaflow train` with these flags: without negatives, and with each kind. A rerun trains only
what is missing. The tables are of one seed: give each seed a folder of its own, and their files of
answers to `benchmarks.studies.validation_gains`. After each training, OUT_FOLDER has the results so
far:

- validation-VARIANT.json and .md compare the models on validation without generated negatives, and
  decide what pays (see `benchmarks.studies.validation_gains`, also for the Parquet files).
- negatives.json and .md show how each model does on dev: AvNA on its unanswerable questions and on
  negatives of all kinds that are made from all of its answerable questions, and F1 of these, with
  gains over the model without negatives. Intervals resample the articles; a star marks those that
  exclude zero, without correction for several comparisons. The no-answer threshold
  is the one that validation without generated negatives chose for --expected-no-answer, or if it
  has no unanswerable questions, that of the training.
- dev-….parquet has a training's answers to all of these questions, without any text.
"""

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from benchmarks.common.overlap import classifier_auc, feature_rows
from benchmarks.common.tables import format_gain, write_table
from benchmarks.race import train
from benchmarks.trainings.answered import Answered, read_answers
from benchmarks.trainings.answers import facts_about, write_columns, write_validation
from benchmarks.trainings.trained import Trained
from benchmarks.trainings.validation import add_expected_no_answer, write_gains
from infra.artifacts.manifest import facts_of
from infra.errors import UserError
from models.arrays import FloatArray, IntArray
from models.span_decoding import argmax_threshold
from models.squad_metrics import QuestionScore, score_questions
from tasks.data.ingest import ingest_file
from tasks.data.ingested import Contexts, Portion, hash_uniform, questions_with_ledger
from tasks.data.negatives import NegativeKind, NegativeSampler, NegativeShares
from tasks.evaluation.significance import bootstrap
from tasks.inference.predictor import AnswerRow, Predictor

# Shares of the questions from which the classifier gets negatives. Few questions allow a swap, so
# more of them are tried.
SAMPLED = NegativeShares(paragraph=0.05, nearest=0.05, swap=0.5)
# Shares of the dev questions from which the models get negatives.
ALL = NegativeShares(paragraph=1, nearest=1, swap=1)
# Share of the answerable questions that are compared with those that people wrote.
COMPARED = 0.2
# The settings of the trainings: the kinds add about as many questions on SQuAD.
CELLS: dict[str, list[str]] = {
    "none": [],
    "paragraph": ["--data.negatives", "0.05"],
    "nearest": ["--data.negatives-nearest", "0.05"],
    "swap": ["--data.negatives-swap", "1.0"],
}
PEOPLE, ANSWERABLE = "written by people", "answerable"
SEED = 7
PROGRAM = "benchmarks.negatives"


class Question(NamedTuple):
    """A question, its context, and its gold answers, none if it is unanswerable."""

    id: str
    question: str
    context: str
    answers: list[str]


def questions_of(folder: Path) -> dict[str, Question]:
    """The questions of an ingested file or split, by id; without those whose answer is unknown."""
    texts: Any = pq.read_table(folder / "contexts.parquet", columns=["text"])["text"].to_pylist()
    return {
        row["id"]: _question(row, texts)
        for batch, _ in questions_with_ledger(folder)
        for row in batch.to_pylist()
        if row["answers"] or row["is_impossible"]
    }


def negatives_of(folder: Path, shares: NegativeShares) -> dict[NegativeKind, list[Question]]:
    """Negatives of each kind, made from the questions of an ingested file or split."""
    texts: Any = pq.read_table(folder / "contexts.parquet", columns=["text"])["text"].to_pylist()
    sampler = NegativeSampler(Contexts(Portion(folder, folder.name)), shares, SEED)
    made: dict[NegativeKind, list[Question]] = defaultdict(list)
    for batch in questions_with_ledger(folder):
        for kind, rows, _ in sampler.sample(*batch):
            made[kind] += [_question(row, texts) for row in rows.to_pylist()]
    return made


def _question(row: dict[str, Any], texts: Sequence[str]) -> Question:
    answers = [answer["text"] for answer in row["answers"]]
    return Question(row["id"], row["question"], texts[row["context_id"]], answers)


def overlap_rows(folder: Path) -> Iterator[dict[str, str]]:
    """Yield each kind's row: how well the classifier tells its questions from answerable ones."""
    questions = questions_of(folder)
    article_of = _articles(folder)
    answerable = [q for q in questions.values() if q.answers]
    people = [q for q in questions.values() if not q.answers]
    compared: dict[str, tuple[list[Question], list[Question]]] = {
        kind: (made, [questions[negative.id[:-1]] for negative in made])
        for kind, made in negatives_of(folder, SAMPLED).items()
    }
    if people:
        drawn = [q for q in answerable if hash_uniform("compared", SEED, q.id) < COMPARED]
        compared[PEOPLE] = people, drawn
    for kind, (unanswerable, others) in compared.items():
        both = [*unanswerable, *others]
        test = [
            hash_uniform("test", SEED, str(article_of[_source(q, questions)])) < 0.5 for q in both
        ]
        features = feature_rows([(q.question, q.context) for q in both])
        is_answerable = np.arange(len(both)) >= len(unanswerable)
        auc = classifier_auc(features, is_answerable, np.array(test, bool))
        yield {
            "kind": kind,
            "questions": f"{len(unanswerable):,}",
            "answerable questions": f"{len(others):,}",
            "AUC by word overlap": "–" if auc is None else f"{auc:.3f}",
        }


def _source(question: Question, questions: Container[str]) -> str:
    return question.id if question.id in questions else question.id[:-1]


def _articles(folder: Path) -> dict[str, int]:
    """The number of each question's article."""
    articles = pq.read_table(folder / "contexts.parquet", columns=["article"])[
        "article"
    ].to_pylist()
    table = pq.read_table(folder / "questions.parquet", columns=["id", "context_id"]).to_pylist()
    return {row["id"]: articles[row["context_id"]] for row in table}


@dataclass(frozen=True)
class Measured:
    """A training's scores on dev."""

    cell: str
    trained: Trained
    threshold: float
    scores: dict[str, FloatArray]  # percent, of each question, by what is measured
    articles: dict[str, IntArray]  # of the same questions


def threshold_of(trained: Trained, validation: Answered, expected_no_answer: float) -> float:
    """The threshold by the validation questions that people wrote; the training's own one if none
    of them is unanswerable."""
    threshold = validation.without_negatives().threshold(expected_no_answer)
    if math.isfinite(threshold):
        return threshold
    own = trained.facts["threshold"]
    return argmax_threshold(trained.allows_no_answer) if own is None else float(own)


def dev_questions(folder: Path) -> list[tuple[str, Question]]:
    """The questions of an ingested split, and negatives of all kinds, each with its kind."""
    questions = questions_of(folder).values()
    made = negatives_of(folder, ALL)
    return [
        *((ANSWERABLE if question.answers else PEOPLE, question) for question in questions),
        *((kind, question) for kind, questions in made.items() for question in questions),
    ]


def measure(cell: str, trained: Trained, threshold: float, out: Path) -> Measured:
    """Answer the dev questions and their negatives, and write the answers to a folder."""
    asked = dev_questions(trained.input("dev", "ingested"))
    questions = [question for _, question in asked]
    spans = _spans(trained, questions)
    kinds = np.array([kind for kind, _ in asked])
    argmax = argmax_threshold(trained.allows_no_answer)
    scores = {
        suffix: _scores(spans, questions, limit)
        for suffix, limit in {"": argmax, "_at_threshold": threshold}.items()
    }
    columns: dict[str, Any] = {
        "id": [question.id for question in questions],
        "kind": kinds,
        "span_start_char": [row["start"] for row in spans],
        "span_end_char": [row["end"] for row in spans],
        "span_probability": [row["probability"] for row in spans],
        "no_answer_probability": [row["no_answer_probability"] for row in spans],
    }
    for suffix, scored in scores.items():
        columns |= {f"em{suffix}": [s.em for s in scored], f"f1{suffix}": [s.f1 for s in scored]}
    name = f"dev-{trained.training.file_name}"
    limit = "spans only" if math.isinf(threshold) else threshold
    facts = {**facts_about(trained), "threshold": limit}
    write_columns(out / name, columns, facts)
    f1, avna = (
        np.array([100.0 * getattr(score, field) for score in scores["_at_threshold"]])
        for field in ("f1", "avna")
    )
    article_of = _articles(trained.input("dev", "ingested"))
    articles = np.array([article_of[_source(question, article_of)] for question in questions])
    parts = {f"F1 {ANSWERABLE}": (f1, kinds == ANSWERABLE)}
    parts |= {f"AvNA {kind}": (avna, kinds == kind) for kind in dict.fromkeys(kinds.tolist())}
    return Measured(
        cell,
        trained,
        threshold,
        scores={name: values[rows] for name, (values, rows) in parts.items()},
        articles={name: articles[rows] for name, (_, rows) in parts.items()},
    )


def _spans(trained: Trained, questions: Sequence[Question]) -> list[AnswerRow]:
    """The best span for each question."""
    predictor = replace(Predictor.load(trained.folder / "model"), threshold=math.inf)
    return predictor.answer([(question.question, question.context) for question in questions])


def _scores(
    spans: Sequence[AnswerRow], questions: Sequence[Question], threshold: float
) -> list[QuestionScore]:
    """The scores of the spans, or of no answer where the margin reaches the threshold."""
    best, none = (
        np.array([row[name] for row in spans]) for name in ("probability", "no_answer_probability")
    )
    with np.errstate(divide="ignore", invalid="ignore"):  # zeros where there is nothing to answer
        is_answered = np.log(none) - np.log(best) < threshold
    texts = [
        row["answer"] if answered else "" for row, answered in zip(spans, is_answered, strict=True)
    ]
    return score_questions(texts, [question.answers for question in questions], v2=True)


def table_row(measured: Measured, reference: Measured) -> dict[str, str]:
    """The row of a training: means with intervals, and gains over the reference."""
    columns = {}
    for name, scores in measured.scores.items():
        articles = measured.articles[name]
        mean = bootstrap(scores[None], group_of=articles)
        columns[f"{name} ({len(scores):,})"] = (
            f"{mean.mean:.2f} ({mean.low:.2f} to {mean.high:.2f})"
        )
        before = reference.scores[name]
        gain = None if measured is reference else bootstrap(scores[None], before[None], articles)
        columns[f"{name}: gain, 95 %"] = format_gain(gain)
    trained = measured.trained
    added = facts_of(trained.input("train", "ingested"))["negatives"]
    return {
        "variant": trained.training.variant.name,
        "seed": str(trained.training.seed),
        "negatives": measured.cell,
        "added to train": f"{added:,}",
        "threshold": "–" if math.isinf(measured.threshold) else f"{measured.threshold:.2f}",
        **columns,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    parser.add_argument("--overlap-only", type=Path, metavar="FILE")
    add_expected_no_answer(parser)
    arguments, flags = parser.parse_known_args()
    if arguments.overlap_only and flags:
        parser.error(f"unknown arguments: {' '.join(flags)}")
    if arguments.overlap_only:
        _measure_overlap(arguments.overlap_only, arguments.out)
    else:
        _train_and_evaluate(flags, arguments.out, arguments.expected_no_answer)


def _measure_overlap(file: Path, out: Path) -> None:
    with TemporaryDirectory() as folder:
        try:
            facts = ingest_file(Path(folder), file)
        except UserError as error:
            sys.exit(str(error))
        rows = list(overlap_rows(Path(folder)))
    data = {"file": file.name, **facts}
    write_table(out, "overlap", PROGRAM, rows, seed=SEED, data=data, shares=SAMPLED.model_dump())


def _train_and_evaluate(flags: list[str], out: Path, expected: float) -> None:
    rows: list[dict[str, str]] = []
    references: dict[str, Measured] = {}
    validation: dict[str, list[Path]] = defaultdict(list)
    trainings = []
    for cell, settings in CELLS.items():
        trained_now = map(Trained, train([*flags, *settings]))
        for trained in sorted(trained_now, key=lambda each: each.training.variant.name):
            variant = trained.training.variant.name
            file = out / f"validation-{trained.training.file_name}"
            write_validation(file, trained)
            answers = read_answers(file)
            validation[variant].append(file)
            write_gains(validation[variant], out, f"validation-{variant}", PROGRAM, expected)
            measured = measure(cell, trained, threshold_of(trained, answers, expected), out)
            rows.append(table_row(measured, references.setdefault(variant, measured)))
            trainings.append(answers.summary)
        facts = {"seed": SEED, "expected_no_answer": expected, "trainings": trainings}
        write_table(out, "negatives", PROGRAM, rows, **facts)


if __name__ == "__main__":
    main()
