"""Statistics of ingested files and splits, and the limits that a file must keep to."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from infra.errors import UserError
from models.squad_metrics import QuestionScore, normalize_answer, score_questions
from tasks.data.alignment import AlignmentStatus
from tasks.data.answer_errors import ERROR_DESCRIPTIONS


def split_facts(counts: Counter[str], score_sums: Mapping[str, float]) -> dict[str, int | float]:
    """The statistics of a file or split: counts, and the mean oracle scores (0..100).

    `score_sums` are the sums of the questions' `em` and `f1` (0..1 each).
    """
    questions = counts["questions"]
    return {
        "articles": counts["articles"],
        "contexts": counts["contexts"],
        "questions": questions,
        "answerable": questions - counts["impossible"],
        "impossible": counts["impossible"],
        "exact": counts["exact"],
        "widened": counts["widened"],
        "repaired": counts["repaired"],
        "dropped": counts["dropped"],
        "oracle_em": 100 * score_sums["em"] / questions,
        "oracle_f1": 100 * score_sums["f1"] / questions,
        "context_tokens": counts["context_tokens"],
        "question_tokens": counts["question_tokens"],
    }


class IngestStats:
    """Counts of questions by outcome and error, and sums of their oracle scores."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        # Whether the v2.0 rule applies is known only at the end, so both rules are summed.
        self._sums = {v2: {"em": 0.0, "f1": 0.0} for v2 in (True, False)}
        self._v2 = False

    def add(self, outcome: AlignmentStatus, span: str, golds: Sequence[str]) -> QuestionScore:
        """Count a question, and return the score of its span's text by the v2.0 rule."""
        self.counts["questions"] += 1
        self.counts[outcome] += 1
        (score,) = score_questions([span], [golds], v2=True)
        v1_score = score  # The rules differ only if an answer normalises to nothing.
        if golds and not all(map(normalize_answer, golds)):
            (v1_score,) = score_questions([span], [golds], v2=False)
        for v2, rule_score in ((True, score), (False, v1_score)):
            self._sums[v2]["em"] += rule_score.em
            self._sums[v2]["f1"] += rule_score.f1
        self._v2 |= not golds
        return score

    def refuse_invalid(self, folder: Path, max_rejected: float) -> None:
        """Raises UserError if there are no questions, or if too many were dropped.

        The message takes the most common error, and an example of it, from the ledger in `folder`.
        """
        questions, dropped = self.counts["questions"], self.counts["dropped"]
        if not questions:
            raise UserError("no questions found. Add at least one question to the file.")
        if dropped > max_rejected * questions:
            ledger: Any = pq.read_table(
                folder / "alignment.parquet",
                columns=["id", "fault", "reason"],
                filters=[("outcome", "=", "dropped")],
            ).to_pylist()
            kind, count = Counter(row["fault"] for row in ledger).most_common(1)[0]
            example = next(row for row in ledger if row["fault"] == kind)
            raise UserError(
                f"{dropped:,} of {questions:,} questions ({dropped / questions:.1%}) can't be "
                f"trained on, more than the limit of {max_rejected:.1%}. Most common error "
                f"({count:,}): {ERROR_DESCRIPTIONS[kind]}, e.g. question "
                f'"{example["id"]}" ({example["reason"]}). Fix the file, repair such answers '
                "(--data.repair), or raise the limit (--data.max-rejected)."
            )

    def facts(self) -> dict[str, int | float]:
        """The `split_facts`, by the v2.0 rule if any question has no answers, else by v1.1."""
        return split_facts(self.counts, self._sums[self._v2])
