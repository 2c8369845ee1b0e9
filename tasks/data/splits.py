"""Divides articles at random, by seed, among train, validation and dev; never splits an article.

Each article gets a pseudorandom number, a hash of its own text, and the articles with the lowest
numbers are held out. The division therefore does not depend on the order of the articles, and most
articles keep their part when more are added. Validation takes the lowest numbers of each file in
proportion to its size, because a small file may be the only one with questions of some kind, for
example unanswerable ones.

The three tables of a split are written batch by batch, from the tables of ingested files.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, Field

from infra.errors import UserError
from models.arrays import BoolArray, IntArray
from tasks.data.ingested import (
    TABLES,
    Contexts,
    Portion,
    batches,
    count_contexts,
    count_questions,
    fingerprints,
    hash_uniform,
    questions_with_ledger,
    refuse_overlap,
    refuse_shared_ids,
    split_facts,
    table_writers,
    with_columns,
)
from tasks.data.negatives import (
    NO_NEGATIVES,
    REQUIREMENTS,
    SIGNS,
    NegativeKind,
    NegativeSampler,
    NegativeShares,
)
from tasks.datasets.catalog import SplitName


class Shares(BaseModel, frozen=True):
    """The shares of the training articles to hold out, and the seed of the draw."""

    validation: float = Field(0, ge=0, lt=1)
    dev: float = Field(0, ge=0, lt=1)
    seed: int = Field(0, ge=0)


def divide(files: Sequence[Sequence[str]], shares: Shares) -> list[SplitName]:
    """The part of each article, in order over all files.

    `files` holds each file's articles, each identified by its text. Of n articles in total,
    round(share · n) are held out: at least one for dev if `shares.dev` is above 0, and never all of
    them. Equal articles stay together, so more are held out if the last ones drawn have equals.
    """
    articles = [text for file in files for text in file]
    file_of = [number for number, file in enumerate(files) for _ in file]
    parts: list[SplitName] = ["train"] * len(articles)
    held_out: list[tuple[SplitName, float, int]] = [
        ("dev", shares.dev, 1),
        ("validation", shares.validation, 0),
    ]
    for part, share, minimum in held_out:
        count = max(round(share * len(articles)), minimum) if share else 0
        numbers = {
            i: hash_uniform(part, shares.seed, articles[i])
            for i, assigned in enumerate(parts)
            if assigned == "train"
        }
        if part == "validation":
            numbers = _spread_within_files(numbers, file_of)
        for i in _lowest(numbers, articles, count):
            parts[i] = part
    return parts


def _lowest(numbers: Mapping[int, float], articles: Sequence[str], count: int) -> list[int]:
    """The `count` articles with the lowest numbers, and all their equals; never all articles."""
    equals: dict[str, list[int]] = {}
    for i in sorted(numbers, key=numbers.__getitem__):
        equals.setdefault(articles[i], []).append(i)
    lowest: list[int] = []
    for group in list(equals.values())[:-1]:
        if len(lowest) >= count:
            break
        lowest += group
    return lowest


def _spread_within_files(numbers: dict[int, float], file_of: Sequence[int]) -> dict[int, float]:
    """New numbers in the order of the old ones, spread evenly from 0 within each file.

    The lowest numbers then make up the same share of each file, and include at least one article of
    each if enough articles are held out. The only article of a file keeps its number.
    """
    sizes, seen = Counter(file_of[i] for i in numbers), Counter[int]()
    spread: dict[int, float] = {}
    for i in sorted(numbers, key=numbers.__getitem__):
        file = file_of[i]
        spread[i] = seen[file] / sizes[file] if sizes[file] > 1 else numbers[i]
        seen[file] += 1
    return spread


def has_validation(articles: int, shares: Shares) -> bool:
    """Whether `divide` holds out any of this many different articles for validation."""
    return "validation" in divide([[str(number) for number in range(articles)]], shares)


Overlap = Literal["refuse", "leave out"]


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
    negatives: NegativeShares = NO_NEGATIVES,
) -> dict[str, Any]:
    """Write one part of the divided portions, and all of the others, as an ingested split.

    Contexts are renumbered. A question of weight w is written ⌊w⌋ times, and once more with
    probability w − ⌊w⌋, drawn by seed and question id; copies have ids that end in ×2, ×3, …
    Negatives are made from the answerable questions in the shares `negatives`, under ids that end
    in ≠ (another paragraph), ≈ (nearest paragraph) or ⇄ (swap).

    Raises:
        UserError: two files share a question id; a context also occurs in the evaluation set; no
            question is left; or no negative of a wanted kind can be made for training.
    """
    refuse_shared_ids(portions)
    contexts = [Contexts(portion) for portion in portions]
    keep_part([kept for kept in contexts if kept.portion.divided], part, shares)
    left_out = _exclude(contexts, apart)
    # Parquet names the items of a list differently, so the schemas are those of the read files.
    schemas = {name: pq.read_schema(portions[0].folder / f"{name}.parquet") for name in TABLES}
    with table_writers(out, schemas) as writers:
        writer = _SplitWriter(writers)
        for portion in contexts:
            writer.add(portion, shares.seed, negatives)
    if not writer.counts["questions"]:
        raise UserError(_nothing_left(part, left_out))
    if part != "validation":
        for kind, share in negatives.by_kind().items():
            _require_negatives(kind, share, writer.counts)
    return {
        **split_facts(writer.counts, writer.score_sums),
        **_negative_facts(writer.counts),
        "contexts_left_out": left_out,
        "files": [{"name": portion.name, "weight": portion.weight} for portion in portions],
    }


def _nothing_left(part: SplitName, left_out: int) -> str:
    reason = f" Contexts left out, because they are also in held-out data: {left_out:,}."
    other = {
        "dev": ", or set another data.seed, which draws this part",
        "validation": ", set another data.seed, which draws this part, or set "
        "data.validation_share to 0",
    }.get(part, "")
    return f'No questions left in part "{part}".{reason if left_out else ""} Add articles{other}.'


# The setting of the share of each kind of negatives.
_SETTINGS: dict[NegativeKind, str] = {
    "paragraph": "data.negatives",
    "nearest": "data.negatives_nearest",
    "swap": "data.negatives_swap",
}


def _require_negatives(kind: NegativeKind, share: float, counts: Counter[str]) -> None:
    setting = _SETTINGS[kind]
    if not counts[f"negatives_{kind}"]:
        remedy = "" if kind == "swap" else ", or add articles with several paragraphs"
        raise UserError(
            f"{setting} is {share:g}, but no answerable question {REQUIREMENTS[kind]}. "
            f"Set {setting} to 0{remedy}."
        )


def _negative_facts(counts: Counter[str]) -> dict[str, int]:
    """The number of negatives, and that of each kind."""
    by_kind = {f"negatives_{kind}": counts[f"negatives_{kind}"] for kind in SIGNS}
    return {"negatives": sum(by_kind.values()), **by_kind}


def keep_part(contexts: Sequence[Contexts], part: SplitName, shares: Shares) -> None:
    """Keep only the contexts of the articles in one part.

    Articles without questions are in train, because they would leave other parts empty. Raises
    UserError if all others have the same texts, so that train and dev can't be apart.
    """
    if part == "all":
        return
    articles = _equal_for_equal_texts(contexts)
    if shares.dev and len(set().union(*articles)) < 2:
        raise UserError(
            "The data contain only one article with questions (those with the same texts count as "
            "one), which can't be divided into train and dev. Add articles, or set separate files "
            "for train and dev."
        )
    divided = iter(divide(articles, shares))
    for portion in contexts:
        parts = [next(divided) if asked else "train" for asked in portion.has_questions]
        portion.keep &= (np.array(parts) == part)[portion.article_of]


def _equal_for_equal_texts(contexts: Sequence[Contexts]) -> list[list[str]]:
    """The keys of each file's articles with questions, equal for those with the same texts.

    `divide` then keeps these together, whatever their titles. Apart, most of them would be left out
    of train, because their texts are held out.
    """
    files = [
        list(compress(zip(c.articles, c.texts, strict=True), c.has_questions)) for c in contexts
    ]
    first: dict[frozenset[bytes], str] = {}
    for key, texts in sorted((article for file in files for article in file), key=itemgetter(0)):
        first.setdefault(texts, key)
    # Articles with the same title and first text can go on differently.
    shared = Counter(first.values())
    names = {
        texts: key if shared[key] == 1 else "\n".join((key, *sorted(map(bytes.hex, texts))))
        for texts, key in first.items()
    }
    return [[names[texts] if texts else key for key, texts in file] for file in files]


def _exclude(contexts: Sequence[Contexts], exclusions: Exclusions) -> int:
    known = fingerprints(exclusions.held_out)
    if exclusions.scored is not None:
        evaluation = fingerprints([exclusions.scored])
        if exclusions.overlap == "refuse":
            refuse_overlap(contexts, evaluation)
        known |= evaluation
    return sum(portion.leave_out(known) for portion in contexts)


class _SplitWriter:
    """Writes the three tables of a split batch by batch, and counts their content."""

    def __init__(self, writers: Mapping[str, pq.ParquetWriter]) -> None:
        self._writers = writers
        self.counts: Counter[str] = Counter()
        self.score_sums = {"em": 0.0, "f1": 0.0}

    def add(self, contexts: Contexts, seed: int, negatives: NegativeShares) -> None:
        """Write the kept contexts of a portion, their questions, copied by its weight, and the
        negatives made from these."""
        folder, weight = contexts.portion.folder, contexts.portion.weight
        numbers = _renumbered(np.arange(len(contexts.keep)), contexts.keep, self.counts["contexts"])
        articles = _renumbered(contexts.article_of, contexts.keep, self.counts["articles"])
        for batch in batches(folder / "contexts.parquet"):
            self._add_contexts(batch, numbers, articles)
        sampler = NegativeSampler(contexts, negatives, seed)
        for questions, ledger in questions_with_ledger(folder):
            copied = _copy_by_weight(questions, ledger, contexts.keep, weight, seed)
            self._add_questions(*copied, numbers)
            for kind, made, made_ledger in sampler.sample(*copied):
                self.counts[f"negatives_{kind}"] += made.num_rows
                self._add_questions(made, made_ledger, numbers)

    def _add_contexts(self, batch: Any, numbers: IntArray, articles: IntArray) -> None:
        ids = batch.column("context_id").to_numpy()
        kept = batch.filter(pa.array(numbers[ids] >= 0))
        ids = kept.column("context_id").to_numpy()
        new = {"context_id": numbers[ids], "article": articles[ids]}
        if kept.num_rows:
            self._writers["contexts"].write_batch(with_columns(kept, new))
            self.counts["articles"] = int(articles[ids[-1]]) + 1
            count_contexts(self.counts, kept)

    def _add_questions(self, questions: Any, ledger: Any, numbers: IntArray) -> None:
        """Write questions with renumbered contexts, and their ledger rows."""
        if not questions.num_rows:
            return
        new = {"context_id": numbers[questions.column("context_id").to_numpy()]}
        self._writers["questions"].write_batch(with_columns(questions, new))
        self._writers["alignment"].write_batch(ledger)
        count_questions(self.counts, questions, ledger)
        for name in self.score_sums:
            self.score_sums[name] += pc.sum(ledger.column(name)).as_py()


def _renumbered(numbers: IntArray, keep: BoolArray, first: int) -> IntArray:
    """The kept numbers renumbered without gaps from `first`; -1 for the others."""
    new = np.full(len(numbers), -1, dtype=np.int32)
    new[keep] = first + np.unique(numbers[keep], return_inverse=True)[1]
    return new


def _copy_by_weight(
    questions: Any, ledger: Any, keep: BoolArray, weight: float, seed: int
) -> tuple[Any, Any]:
    """The questions about kept contexts, and their ledger rows, copied by the weight."""
    ids = questions.column("id").to_pylist()
    whole, fraction = divmod(weight, 1)
    drawn = [int(whole) + (hash_uniform("copy", seed, text) < fraction) for text in ids]
    copies = np.where(keep[questions.column("context_id").to_numpy()], drawn, 0)
    rows = pa.array(np.repeat(np.arange(len(ids)), copies))
    copied = [
        f"{ids[row]}×{copy}" if copy > 1 else ids[row]
        for row, count in enumerate(copies)
        for copy in range(1, count + 1)
    ]
    return with_columns(questions.take(rows), {"id": copied}), with_columns(
        ledger.take(rows), {"id": copied}
    )
