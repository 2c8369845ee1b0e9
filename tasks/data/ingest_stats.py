"""Ingest statistics, accumulated while a file is ingested."""

from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from infra.errors import UserError
from models.squad_metrics import QuestionScore, normalize_answer, score_questions
from tasks.data.alignment import Alignment
from tasks.data.answer_errors import ERROR_DESCRIPTIONS, AnswerErrorKind
from tasks.data.ingested import batches


class IngestStats:
    """Counts of questions by outcome and error, and sums of their oracle scores.

    It also holds eight bytes for each question: a hash of its id.
    """

    def __init__(self) -> None:
        self.articles = self.contexts = self.context_tokens = self.question_tokens = 0
        self.outcomes: Counter[str] = Counter()
        self.faults: Counter[AnswerErrorKind] = Counter()
        self._examples: dict[AnswerErrorKind, str] = {}
        self._hashes = array("q")
        # Whether the v2.0 rule applies is known only at the end, so both rules are summed.
        self._sums = {True: [0.0, 0.0], False: [0.0, 0.0]}
        self._v2 = False

    def add(self, id: str, alignment: Alignment, span: str, golds: Sequence[str]) -> QuestionScore:
        """Count a question, and return the score of its span's text by the v2.0 rule."""
        self._hashes.append(hash(id))
        self.outcomes[alignment.outcome] += 1
        if alignment.fault is not None and alignment.outcome == "dropped":
            self.faults[alignment.fault] += 1
            self._examples.setdefault(alignment.fault, f'"{id}" ({alignment.reason})')
        return self._score(span, golds)

    def _score(self, span: str, golds: Sequence[str]) -> QuestionScore:
        (score,) = score_questions([span], [golds], v2=True)
        self._v2 |= not golds
        v1_score = score  # The rules differ only if an answer normalises to nothing.
        if golds and not all(map(normalize_answer, golds)):
            (v1_score,) = score_questions([span], [golds], v2=False)
        for v2, rule_score in ((True, score), (False, v1_score)):
            self._sums[v2][0] += rule_score.em
            self._sums[v2][1] += rule_score.f1
        return score

    @property
    def questions(self) -> int:
        """The number of questions counted so far."""
        return len(self._hashes)

    def refuse_invalid(self, folder: Path, max_rejected: float) -> None:
        """Raises UserError if there are no questions, two share an id, or too many were dropped."""
        if not self.questions:
            raise UserError("no questions found. Add at least one question to the file.")
        repeated = self._repeated_hashes()
        if repeated:
            _refuse_repeated_ids(folder, repeated)
        if self.outcomes["dropped"] > max_rejected * self.questions:
            raise UserError(self._too_many(max_rejected))

    def _repeated_hashes(self) -> set[int]:
        hashes = np.sort(np.frombuffer(self._hashes, dtype=np.int64))
        return set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())

    def _too_many(self, max_rejected: float) -> str:
        dropped, (kind, count) = self.outcomes["dropped"], self.faults.most_common(1)[0]
        share = dropped / self.questions
        return (
            f"{dropped:,} of {self.questions:,} questions ({share:.1%}) can't be trained on, more "
            f"than the limit of {max_rejected:.1%}. Most common error ({count:,}): "
            f"{ERROR_DESCRIPTIONS[kind]}, e.g. question {self._examples[kind]}. Fix the file, "
            "repair such answers (--data.repair), or raise the limit (--data.max-rejected)."
        )

    def facts(self) -> dict[str, int | float]:
        """The counts, and the mean oracle scores (0..100)."""
        em, f1 = (100 * total / self.questions for total in self._sums[self._v2])
        impossible = self.outcomes["impossible"]
        return {
            "articles": self.articles,
            "contexts": self.contexts,
            "questions": self.questions,
            "answerable": self.questions - impossible,
            "impossible": impossible,
            "exact": self.outcomes["exact"],
            "widened": self.outcomes["widened"],
            "repaired": self.outcomes["repaired"],
            "dropped": self.outcomes["dropped"],
            "oracle_em": em,
            "oracle_f1": f1,
            "context_tokens": self.context_tokens,
            "question_tokens": self.question_tokens,
        }


def _refuse_repeated_ids(folder: Path, hashes: set[int]) -> None:
    """Raises UserError if ids with these hashes repeat; different ids may share a hash."""
    seen: dict[str, int] = {}
    for batch in batches(folder / "questions.parquet", ["id", "context_id"]):
        for row in batch.to_pylist():
            if hash(row["id"]) not in hashes:
                continue
            if row["id"] in seen:
                places = [_place(folder, n) for n in (seen[row["id"]], row["context_id"])]
                raise UserError(
                    f'question id "{row["id"]}" occurs twice, in {places[0]} and in '
                    f"{places[1]}. Give each question a unique id."
                )
            seen[row["id"]] = row["context_id"]


def _place(folder: Path, context: int) -> str:
    table = pq.read_table(folder / "contexts.parquet", columns=["article", "title"])
    article = table["article"].to_numpy()
    paragraph = context - int(np.searchsorted(article, article[context])) + 1
    return f'article {article[context] + 1} "{table["title"][context]}", paragraph {paragraph}'
