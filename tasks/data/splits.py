"""Writes the three tables of a split, batch by batch, from the tables of ingested files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infra.errors import UserError
from models.arrays import IntArray
from tasks.data.ingested import Contexts, Portion, batches, paired_batches, with_column
from tasks.data.leakage import fingerprints, refuse_overlap, refuse_shared_ids
from tasks.data.negatives import NegativeSampler
from tasks.data.partition import Shares, divide, hash_uniform
from tasks.datasets.catalog import SplitName

Overlap = Literal["refuse", "leave out"]


OUTCOMES = ("impossible", "exact", "widened", "repaired", "dropped")


@dataclass(frozen=True)
class Exclusions:
    """Splits whose contexts must not occur in this one."""

    scored: Path | None = None  # the user's own evaluation set, so an overlap may be a mistake
    overlap: Overlap = "refuse"
    held_out: tuple[Path, ...] = ()  # from the same files: repeated contexts are left out


NOTHING_HELD_OUT = Shares()
NO_EXCLUSIONS = Exclusions()


def write_split(
    out: Path,
    portions: Sequence[Portion],
    part: SplitName = "all",
    shares: Shares = NOTHING_HELD_OUT,
    apart: Exclusions = NO_EXCLUSIONS,
    negatives: float = 0.0,
) -> dict[str, Any]:
    """Write one part of the divided portions, and all of the others, as an ingested split.

    Contexts are renumbered. A question of weight w is written ⌊w⌋ times, and once more with
    probability w − ⌊w⌋, drawn by seed and question id; copies have ids that end in ×2, ×3, …
    The share `negatives` of the answerable questions is also written as same-article negatives:
    paired with another paragraph of the article that contains none of their answers, under ids
    that end in ≠.

    Raises:
        UserError: two files share a question id; a context also occurs in the evaluation set; no
            question is left; or `negatives` is above 0 and no negative can be made for training.
    """
    refuse_shared_ids(portions)
    contexts = [Contexts(portion) for portion in portions]
    keep_part([kept for kept in contexts if kept.portion.divided], part, shares)
    left_out = _exclude(contexts, apart)
    with SplitWriter(out) as writer:
        for portion in contexts:
            writer.add(portion, shares.seed, negatives)
    if not writer.counts["questions"]:
        raise UserError(f'No questions left in part "{part}". Add more articles.')
    if negatives and part != "validation" and not writer.counts["negatives"]:
        raise UserError(
            f"data.negatives is {negatives:g}, but no answerable question has another paragraph in "
            "its article without its answers. Set data.negatives to 0, or add articles with "
            "several paragraphs."
        )
    files = [{"name": portion.name, "weight": portion.weight} for portion in portions]
    added = writer.counts["negatives"]
    return {**writer.facts(), "negatives": added, "contexts_left_out": left_out, "files": files}


def keep_part(contexts: Sequence[Contexts], part: SplitName, shares: Shares) -> None:
    """Keep only the contexts of the articles in one part.

    Raises UserError if there is only one article to divide into train and dev.
    """
    if part == "all":
        return
    articles = [portion.articles for portion in contexts]
    if shares.dev and sum(map(len, articles)) < 2:
        raise UserError(
            "The data contain only one article, which can't be divided into train and dev. Add "
            "articles, or set separate files for train and dev."
        )
    parts = divide(articles, shares)
    for portion in contexts:
        own_parts, parts = parts[: len(portion.articles)], parts[len(portion.articles) :]
        portion.keep_articles([own == part for own in own_parts])


def _exclude(contexts: Sequence[Contexts], exclusions: Exclusions) -> int:
    known = fingerprints(exclusions.held_out)
    if exclusions.scored is not None:
        evaluation = fingerprints([exclusions.scored])
        if exclusions.overlap == "refuse":
            refuse_overlap(contexts, evaluation)
        known |= evaluation
    return sum(portion.leave_out(known) for portion in contexts)


class SplitWriter:
    """Writes the three tables of a split batch by batch, and counts their content."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._files: dict[str, pq.ParquetWriter] = {}
        self.counts: Counter[str] = Counter()
        self._outcomes = Counter(dict.fromkeys(OUTCOMES, 0))
        self._scores = {"em": 0.0, "f1": 0.0}

    def __enter__(self) -> "SplitWriter":
        return self

    def __exit__(self, *raised: object) -> None:
        for file in self._files.values():
            file.close()

    def _write(self, name: str, batch: Any) -> None:
        if name not in self._files:
            self._files[name] = pq.ParquetWriter(
                self._out / f"{name}.parquet", batch.schema, compression="zstd"
            )
        self._files[name].write_batch(batch)

    def add(self, contexts: Contexts, seed: int, negatives: float = 0.0) -> None:
        """Write the kept contexts of a portion and their questions, copied by its weight.

        The share `negatives` of the answerable questions is also written as same-article negatives.
        """
        numbers = np.where(contexts.keep, np.cumsum(contexts.keep) - 1, -1).astype(np.int32)
        numbers[contexts.keep] += self.counts["contexts"]
        folder, weight = contexts.portion.folder, contexts.portion.weight
        self._add_contexts(folder, numbers)
        sampler = NegativeSampler(contexts, negatives, seed)
        for questions, ledger in paired_batches(
            folder / "questions.parquet", folder / "alignment.parquet"
        ):
            copied = _copy_by_weight(questions, ledger, numbers >= 0, weight, seed)
            self._add_questions(*copied, numbers)
            if negatives:
                self.counts["negatives"] += self._add_questions(*sampler.sample(*copied), numbers)

    def _add_contexts(self, folder: Path, numbers: IntArray) -> None:
        articles, last = self.counts["articles"] - 1, -1
        for batch in batches(folder / "contexts.parquet"):
            number = numbers[batch.column("context_id").to_numpy()]
            kept = batch.filter(pa.array(number >= 0))
            if not kept.num_rows:
                continue
            old_article = kept.column("article").to_numpy()
            begins = np.diff(old_article, prepend=last) != 0
            last = old_article[-1]
            article = articles + np.cumsum(begins)
            articles = int(article[-1])
            kept = with_column(kept, "context_id", number[number >= 0])
            self._write("contexts", with_column(kept, "article", article.astype(np.int32)))
            self.counts["contexts"] += kept.num_rows
            self.counts["context_tokens"] += _token_count(kept)
        self.counts["articles"] = articles + 1

    def _add_questions(self, questions: Any, ledger: Any, numbers: IntArray) -> int:
        """Write questions with renumbered contexts, and return how many were written."""
        if not questions.num_rows:
            return 0
        number = numbers[questions.column("context_id").to_numpy()]
        self._write("questions", with_column(questions, "context_id", number))
        self._write("alignment", ledger)
        self.counts["questions"] += questions.num_rows
        self.counts["question_tokens"] += _token_count(questions)
        self._outcomes.update(ledger.column("outcome").to_pylist())
        for name in self._scores:
            self._scores[name] += pc.sum(ledger.column(name)).as_py()
        return int(questions.num_rows)

    def facts(self) -> dict[str, int | float]:
        """The statistics of everything written, under the names that `ingest_articles` uses."""
        counts = self.counts
        return {
            **{name: counts[name] for name in ("articles", "contexts", "questions")},
            "answerable": counts["questions"] - self._outcomes["impossible"],
            **self._outcomes,
            **{
                f"oracle_{name}": 100 * total / counts["questions"]
                for name, total in self._scores.items()
            },
            **{name: counts[name] for name in ("context_tokens", "question_tokens")},
        }


def _token_count(batch: Any) -> int:
    return pc.sum(pc.list_value_length(batch.column("token_starts"))).as_py() or 0


def _copy_by_weight(
    questions: Any, ledger: Any, keep: npt.NDArray[np.bool_], weight: float, seed: int
) -> tuple[Any, Any]:
    """The questions about kept contexts, and their ledger rows, copied by the weight."""
    ids = questions.column("id").to_pylist()
    kept = keep[questions.column("context_id").to_numpy()]
    copies = np.where(kept, _copy_counts(ids, weight, seed), 0)
    rows = pa.array(np.repeat(np.arange(len(ids)), copies))
    copied = [
        f"{ids[row]}×{copy}" if copy > 1 else ids[row]
        for row, count in enumerate(copies)
        for copy in range(1, count + 1)
    ]
    return with_column(questions.take(rows), "id", copied), with_column(
        ledger.take(rows), "id", copied
    )


def _copy_counts(ids: Sequence[str], weight: float, seed: int) -> npt.NDArray[np.int64]:
    whole, fraction = divmod(weight, 1)
    if not fraction:
        return np.full(len(ids), int(whole))
    return np.array([int(whole) + (hash_uniform("copy", seed, text) < fraction) for text in ids])
