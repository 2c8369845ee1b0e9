r"""What each kind of negatives brings, and how easily shared words tell it.

    python -m benchmarks.negatives OUT_FOLDER --overlap-only FILE

makes negatives of each kind from the answerable questions of a SQuAD-format file. A logistic
regression on features of the words that question and context share must tell them from the
questions that they were made from, and unanswerable questions that people wrote from a fifth of the
answerable ones. It is trained on half of the articles and tested on the others. An area under the
ROC curve near 1 means that a kind is too easy. This takes minutes, and writes overlap.json and .md.

    python -m benchmarks.negatives OUT_FOLDER --data.dataset squad-v2.0-recovered --variants char \
      --training.epochs 3 …

runs `bidaflow train` with these flags: without negatives, and with each kind. It evaluates each
model on negatives of all kinds that are made from the answerable dev questions: AvNA by kind, and
F1 of the answerable questions. The no-answer threshold is the one that validation chose. After
each training, negatives.json and .md have the results so far. A rerun trains only what is missing.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from benchmarks.common.overlap import classifier_auc, feature_rows
from benchmarks.common.tables import write_table
from benchmarks.common.trained import Trained
from benchmarks.race import train
from infra.artifacts.manifest import facts_of
from models.squad_metrics import score_questions
from tasks.data.ingest import ingest_file
from tasks.data.ingested import Contexts, Portion, hash_uniform, questions_with_ledger
from tasks.data.negatives import NegativeKind, NegativeSampler, NegativeShares
from tasks.inference.predictor import Predictor

# Shares of the questions from which the classifier and the models get negatives. Few questions
# allow a swap, so more of them are tried.
SAMPLED = NegativeShares(paragraph=0.05, nearest=0.05, swap=0.5)
# Share of the answerable questions that are compared with those that people wrote.
COMPARED = 0.2
# The settings of the trainings: the kinds add about as many questions on SQuAD.
CELLS: dict[str, list[str]] = {
    "none": [],
    "paragraph": ["--data.negatives", "0.05"],
    "nearest": ["--data.negatives-nearest", "0.05"],
    "swap": ["--data.negatives-swap", "1.0"],
}
PEOPLE = "written by people"
SEED = 7
PROGRAM = "benchmarks.negatives"


class Question(NamedTuple):
    """A question, its context, and its gold answers, none if it is unanswerable."""

    id: str
    question: str
    context: str
    answers: list[str]


def questions_of(folder: Path) -> dict[str, Question]:
    """The questions of an ingested file or split, by id."""
    texts: Any = pq.read_table(folder / "contexts.parquet", columns=["text"])["text"].to_pylist()
    return {
        row["id"]: _question(row, texts)
        for batch, _ in questions_with_ledger(folder)
        for row in batch.to_pylist()
    }


def negatives_of(folder: Path) -> dict[NegativeKind, list[Question]]:
    """Negatives of each kind, made from the questions of an ingested file or split."""
    texts: Any = pq.read_table(folder / "contexts.parquet", columns=["text"])["text"].to_pylist()
    sampler = NegativeSampler(Contexts(Portion(folder, folder.name)), SAMPLED, SEED)
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
    titles = _titles(folder)
    answerable = [q for q in questions.values() if q.answers]
    people = [q for q in questions.values() if not q.answers]
    compared: dict[str, tuple[list[Question], list[Question]]] = {
        kind: (made, [questions[negative.id[:-1]] for negative in made])
        for kind, made in negatives_of(folder).items()
    }
    if people:
        drawn = [q for q in answerable if hash_uniform("compared", SEED, q.id) < COMPARED]
        compared[PEOPLE] = people, drawn
    for kind, (unanswerable, others) in compared.items():
        both = [*unanswerable, *others]
        test = [hash_uniform("test", SEED, titles[_source(q, questions)]) < 0.5 for q in both]
        features = feature_rows([(q.question, q.context) for q in both])
        is_answerable = np.arange(len(both)) >= len(unanswerable)
        auc = classifier_auc(features, is_answerable, np.array(test))
        yield {
            "kind": kind,
            "questions": f"{len(unanswerable):,}",
            "answerable questions": f"{len(others):,}",
            "AUC by word overlap": f"{auc:.3f}",
        }


def _source(question: Question, questions: dict[str, Question]) -> str:
    return question.id if question.id in questions else question.id[:-1]


def _titles(folder: Path) -> dict[str, str]:
    """The number of each question's article, as text."""
    articles = pq.read_table(folder / "contexts.parquet", columns=["article"])[
        "article"
    ].to_pylist()
    table = pq.read_table(folder / "questions.parquet", columns=["id", "context_id"]).to_pylist()
    return {row["id"]: str(articles[row["context_id"]]) for row in table}


def training_row(cell: str, trained: Trained) -> dict[str, str]:
    """AvNA by kind and F1 of the answerable questions, percent, of a model on dev."""
    dev = trained.input("dev", "ingested")
    threshold = trained.facts["threshold"]
    predictor = Predictor.load(
        trained.folder / "model", "argmax" if threshold is None else "threshold"
    )
    questions = list(questions_of(dev).values())
    answerable = [question for question in questions if question.answers]
    people = [question for question in questions if not question.answers]
    kinds: dict[str, list[Question]] = dict(negatives_of(dev).items())
    if people:
        kinds[PEOPLE] = people
    given = _answers(predictor, answerable)
    scores = score_questions(given, [question.answers for question in answerable], v2=True)
    added = facts_of(trained.input("train", "ingested"))["negatives"]
    return {
        "variant": trained.variant.name,
        "negatives": cell,
        "added to train": f"{added:,}",
        "threshold": "–" if threshold is None else f"{threshold:.2f}",
        "F1 answerable": f"{100 * np.mean([score.f1 for score in scores]):.2f}",
        "AvNA answerable": f"{100 * np.mean([bool(answer) for answer in given]):.2f}",
        **{
            f"AvNA {kind} ({len(made):,})": f"{_unanswered(predictor, made):.2f}"
            for kind, made in kinds.items()
        },
    }


def _answers(predictor: Predictor, questions: Sequence[Question]) -> list[str]:
    pairs = [(question.question, question.context) for question in questions]
    return [row["answer"] for row in predictor.answer(pairs)]


def _unanswered(predictor: Predictor, questions: Sequence[Question]) -> float:
    """The share of questions without an answer, percent."""
    return 100 * float(np.mean([not answer for answer in _answers(predictor, questions)]))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    parser.add_argument("--overlap-only", type=Path, metavar="FILE")
    arguments, flags = parser.parse_known_args()
    if arguments.overlap_only and flags:
        parser.error(f"unknown arguments: {' '.join(flags)}")
    if arguments.overlap_only:
        _measure_overlap(arguments.overlap_only, arguments.out)
    else:
        _train_and_evaluate(flags, arguments.out)


def _measure_overlap(file: Path, out: Path) -> None:
    with TemporaryDirectory() as folder:
        facts = ingest_file(Path(folder), file)
        rows = list(overlap_rows(Path(folder)))
    data = {"file": file.name, **facts}
    write_table(out, "overlap", PROGRAM, rows, seed=SEED, data=data, shares=SAMPLED.model_dump())


def _train_and_evaluate(flags: list[str], out: Path) -> None:
    rows, trainings = [], []
    for cell, settings in CELLS.items():
        trained_now = map(Trained, train([*flags, *settings]))
        for trained in sorted(trained_now, key=lambda each: each.variant.name):
            rows.append(training_row(cell, trained))
            trainings.append({"config": trained.variant.to_dict(), "facts": trained.facts})
        write_table(out, "negatives", PROGRAM, rows, seed=SEED, trainings=trainings)


if __name__ == "__main__":
    main()
