"""The cells: one training each, whose answers are kept as a Parquet file without any text."""

import flows  # noqa: F401  (sets Prefect's environment, before it is imported)

# isort: split
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from prefect import flow

from benchmarks.domain_vectors.arms import ARMS, Texts, vectors_of
from benchmarks.domain_vectors.domains import Domain, parts
from benchmarks.domain_vectors.vector_facts import vector_facts
from benchmarks.trainings.answers import write_answers
from benchmarks.trainings.trained import Trained
from flows.common.encoding import encode_dataset, resolve_vectors
from flows.common.failures import TRAINING_FLOW, report_user_errors, result_or_exit
from flows.common.parameters import CorpusParameters, configure, vectors_for
from flows.common.splits import Splits, ingest_dataset
from flows.common.training import Training, train_all
from infra.atomic_files import atomic_file
from infra.cluster.allotment import Resources
from tasks.embeddings.formats.select import packaged_words
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.slices import questions_with_oov_words
from tasks.text.build_vocabulary import VocabularyParameters

QUESTIONS = "questions.parquet"
CHANGES: dict[str, Any] = {
    "window_stride": 200,
    "max_answer_tokens": 60,
    "optimizer": "adam",
    "learning_rate": 0.001,
}
"""The training settings of `benchmarks/medical.py`, but for the precision."""


@dataclass(frozen=True)
class Cell:
    """An arm trained from a seed for some epochs."""

    arm: str
    seed: int
    epochs: int

    @property
    def file(self) -> str:
        """The name of its file of answers."""
        return f"{self.arm}-seed-{self.seed}.parquet"


@dataclass(frozen=True)
class Setting:
    """What all cells of a benchmark share."""

    domain: Domain
    out: Path
    changes: dict[str, Any]  # to the variant `char`
    resources: Resources


def run_cell(setting: Setting, cell: Cell) -> None:
    """Train the cell, and write its file of answers; a training that was killed resumes."""

    @flow(name="domain-vectors", **TRAINING_FLOW)
    @report_user_errors
    def train_cell(domain: str, arm: str, seed: int, epochs: int) -> None:
        _train(setting, cell)

    result_or_exit(
        train_cell(setting.domain.name, cell.arm, cell.seed, cell.epochs, return_state=True)
    )


def _train(setting: Setting, cell: Cell) -> None:
    splits = ingest_dataset(setting.domain.data)
    if not (setting.out / QUESTIONS).exists():
        write_questions(setting.out / QUESTIONS, setting.domain, splits.dev.folder)
    arm = ARMS[cell.arm]
    changes = {**setting.changes, "epochs": cell.epochs, "seed": cell.seed}
    config = configure("char", changes, {"vector_gate": arm.gate} if arm.gate else {})
    texts = texts_of(setting.domain, splits)
    vectors = vectors_for([config], vectors_of(arm, texts, cell.seed))
    encoded = encode_dataset(splits, vectors, VocabularyParameters())
    (trained,) = train_all([Training(config, splits, encoded)], setting.resources)
    questions: Any = pq.read_table(setting.out / QUESTIONS, columns=["part"])
    part_of = questions["part"].to_pylist()
    facts = vector_facts(resolve_vectors(vectors), splits.dev.folder, part_of)
    write_answers(setting.out / cell.file, Trained(trained.folder), vectors=facts)


def texts_of(domain: Domain, splits: Splits) -> Texts:
    """The domain's texts, alone and with the contexts of the dev split."""
    texts = domain.texts()
    contexts = str(splits.dev.folder / "contexts.parquet")
    both = CorpusParameters(**{**texts.model_dump(), "files": [*texts.files, contexts]})
    return Texts(texts, both)


def write_questions(file: Path, domain: Domain, dev: Path) -> None:
    """Write the id of each dev question, its context and part (see `parts`), and whether it, or an
    answer to it, has a word outside GloVe."""
    split = load_split(dev)
    contexts: Any = pq.read_table(dev / "contexts.parquet", columns=["title"])
    part = parts(domain, contexts["title"].to_pylist(), split.contexts)
    columns = {
        "id": pa.array(split.ids, pa.string()),
        "context_id": pa.array(split.context_of, pa.int32()),
        "part": pa.array([part[context] for context in split.context_of], pa.string()),
        "outside_glove": pa.array(questions_with_oov_words(split, packaged_words())),
    }
    with atomic_file(file) as out:
        pq.write_table(pa.table(columns), out, compression="zstd")
