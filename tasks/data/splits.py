"""Divides articles at random, by seed, among train, validation and dev; never splits an article.

Each article gets a pseudorandom number, a hash of its own texts. Parts of an article in several
files of rows, which have the same title, are one article. Those with the lowest numbers are
in dev, those with the highest in validation. The part of an article therefore depends on neither
the other articles nor their order or files: it keeps its part as data grow. Nor does it move
between train and validation when a dev file is added, or the share of dev changed.

The three tables of a split are written batch by batch, from the tables of ingested files.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
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
    TablesWriter,
    article_keys,
    batches,
    fingerprints,
    hash_uniform,
    questions_with_ledger,
    refuse_overlap,
    shared_ids,
    with_columns,
    with_unique_ids,
    writing_tables,
)
from tasks.data.negatives import NegativeSampler
from tasks.datasets.catalog import SplitName
from tasks.datasets.feedback import FEEDBACK


class Shares(BaseModel, frozen=True):
    """The expected shares of the training articles to hold out, and the seed of the draw."""

    validation: float = Field(0, ge=0, lt=1)
    dev: float = Field(0, ge=0, lt=1)
    seed: int = Field(0, ge=0)


def divide(articles: Sequence[str], shares: Shares) -> list[SplitName]:
    """The part of each article, given by its text; equal ones are in the same part.

    Each different article is in dev with the probability `shares.dev`, and in validation with that
    of `shares.validation`, so the sizes of these parts vary. A part that would be empty gets the
    article with the number nearest to its range, first dev, then validation, but never the last
    one of train. Only such an article can change its part when others are added.
    """
    number_of = {text: hash_uniform("divide", shares.seed, text) for text in articles}
    ordered = sorted(number_of, key=number_of.__getitem__)
    dev, validation = _held_out([number_of[text] for text in ordered], shares)
    parts: dict[str, SplitName] = dict.fromkeys(ordered, "train")
    parts |= dict.fromkeys(ordered[:dev], "dev")
    parts |= dict.fromkeys(ordered[len(ordered) - validation :], "validation")
    return [parts[text] for text in articles]


def _held_out(numbers: Sequence[float], shares: Shares) -> tuple[int, int]:
    """How many of the articles with these ascending numbers are in dev, and in validation."""
    dev = validation = 0
    with_validation = has_validation(len(numbers), shares)
    if shares.dev and numbers:
        others = 1 + with_validation  # what train and validation need
        dev = min(max(bisect_left(numbers, shares.dev), 1), len(numbers) - others)
    if with_validation:
        in_range = len(numbers) - bisect_left(numbers, 1 - shares.validation)
        validation = min(max(in_range, 1), len(numbers) - 1 - dev)
    return dev, validation


def has_validation(articles: int, shares: Shares) -> bool:
    """Whether so many different articles are enough for validation, beside train and dev."""
    return shares.validation > 0 and articles > 1 + (shares.dev > 0)


Overlap = Literal["refuse", "leave out"]


@dataclass(frozen=True)
class Exclusions:
    """Splits whose contexts must not occur in this one."""

    scored: Path | None = None  # the user's own evaluation set, so an overlap may be a mistake
    overlap: Overlap = "refuse"
    held_out: tuple[Path, ...] = ()  # from the same files: repeated contexts are left out


# The share of the passages with feedback, mixed in, that is held out for validation.
FEEDBACK_SHARE = 1 / 3
NOTHING_HELD_OUT = Shares()
NO_EXCLUSIONS = Exclusions()


def write_split(
    out: Path,
    portions: Sequence[Portion],
    part: SplitName = "all",
    shares: Shares = NOTHING_HELD_OUT,
    apart: Exclusions = NO_EXCLUSIONS,
    negatives: float = 0,
) -> dict[str, Any]:
    """Write one part of the divided portions, and all of the others, as an ingested split. If there
    is a validation part, it has a share of the others' passages with feedback, and train has not.

    Contexts are renumbered. A question of weight w is written ⌊w⌋ times, and once more with
    probability w − ⌊w⌋, drawn by seed and question id; copies have ids that end in ×2, ×3, …
    Negatives are made from the share `negatives` of the answerable questions, under ids that end in
    ≠ (see `tasks.data.negatives`).

    Raises:
        UserError: two files share a question id; a context also occurs in the evaluation set; no
            question is left; or no negative can be made for training.
    """
    contexts = [Contexts(portion) for portion in portions]
    shared = shared_ids(contexts)
    keep_part([kept for kept in contexts if kept.portion.divided], part, shares)
    for mixed in contexts if shares.validation else ():
        if not mixed.portion.divided:
            mixed.keep &= _is_held_out(mixed) == (part == "validation")
    left_out = _exclude(contexts, apart)
    # Parquet names the items of a list differently, so the schemas are those of the read files.
    schemas = {name: pq.read_schema(portions[0].folder / f"{name}.parquet") for name in TABLES}
    with writing_tables(out, schemas) as writer:
        for number, portion in enumerate(contexts, 1):
            file = f"{number}: {portion.portion.name}"
            _add_portion(writer, portion, shares.seed, negatives, shared, file)
    if not writer.counts["questions"]:
        raise UserError(_nothing_left(part, left_out))
    if negatives and part != "validation" and not writer.counts["negatives"]:
        raise UserError(
            f"data.negatives is {negatives:g}, but no answerable question has another paragraph in "
            "its article without its answers. Set data.negatives to 0, or add articles with "
            "several paragraphs."
        )
    return {
        **writer.facts(),
        "negatives": writer.counts["negatives"],
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


def keep_part(contexts: Sequence[Contexts], part: SplitName, shares: Shares) -> None:
    """Keep only the contexts of the articles in one part.

    Articles without questions are in train, because they would leave other parts empty. Raises
    UserError if all others have the same texts, so that train and dev can't be apart.
    """
    if part == "all":
        return
    keys = article_keys(contexts)
    articles = [
        key
        for portion, all_keys in zip(contexts, keys, strict=True)
        for key in compress(all_keys, portion.has_questions)
    ]
    if shares.dev and len(set(articles)) < 2:
        raise UserError(
            "The data contain only one article with questions (those with the same texts count as "
            "one), which can't be divided into train and dev. Add articles, or set separate files "
            "for train and dev."
        )
    divided = iter(divide(articles, shares))
    for portion in contexts:
        parts = [next(divided) if asked else "train" for asked in portion.has_questions]
        portion.keep &= (np.array(parts) == part)[portion.article_of]


def feedback_contexts(folder: Path) -> IntArray:
    """The contexts of an ingested file about which it has feedback, one per question."""
    is_feedback = pc.starts_with(pc.field("id"), FEEDBACK)
    columns = ["context_id"]
    table: Any = pq.read_table(folder / "questions.parquet", columns=columns, filters=is_feedback)
    contexts: IntArray = table["context_id"].to_numpy()
    return contexts


def _is_held_out(contexts: Contexts) -> BoolArray:
    """Whether each context has feedback and is held out for validation, (n,). This depends on its
    text only, so no later training learns what an earlier one was compared on."""
    held_out = np.zeros(len(contexts.keep), dtype=np.bool_)
    for context in feedback_contexts(contexts.portion.folder):
        number = hash_uniform("feedback", 0, str(contexts.fingerprints[context]))
        held_out[context] = number < FEEDBACK_SHARE
    return held_out


def _exclude(contexts: Sequence[Contexts], exclusions: Exclusions) -> int:
    known = fingerprints(exclusions.held_out)
    if exclusions.scored is not None:
        evaluation = fingerprints([exclusions.scored])
        if exclusions.overlap == "refuse":
            refuse_overlap(contexts, evaluation)
        known |= evaluation
    return sum(portion.leave_out(known) for portion in contexts)


def _add_portion(
    writer: TablesWriter,
    contexts: Contexts,
    seed: int,
    negatives: float,
    shared: IntArray,
    file: str,
) -> None:
    """Write the kept contexts of a portion, their questions, copied by its weight, and then the
    negatives made from these; `shared` ids get the file's name."""
    counts = writer.counts
    numbers = _renumbered(np.arange(len(contexts.keep)), contexts.keep, counts["contexts"])
    articles = _renumbered(contexts.article_of, contexts.keep, counts["articles"])
    counts["articles"] = max(counts["articles"], int(articles.max(initial=-1)) + 1)
    for batch in batches(contexts.portion.folder / "contexts.parquet"):
        kept = batch.filter(pa.array(contexts.keep[batch.column("context_id").to_numpy()]))
        ids = kept.column("context_id").to_numpy()
        new = {"context_id": numbers[ids], "article": articles[ids]}
        writer.add_contexts(with_columns(kept, new))
    for questions, ledger in _copied_questions(contexts, seed, shared, file):
        writer.add_questions(_in_contexts(questions, numbers), ledger)
    if negatives:
        sampler = NegativeSampler(contexts, negatives, seed)
        for copied in _copied_questions(contexts, seed, shared, file):
            made, ledger = sampler.sample(*copied)
            counts["negatives"] += made.num_rows
            writer.add_questions(_in_contexts(made, numbers), ledger)


def _copied_questions(
    contexts: Contexts, seed: int, shared: IntArray, file: str
) -> Iterator[tuple[Any, Any]]:
    """Yield batches of the questions about kept contexts, and their ledger rows, copied by the
    portion's weight."""
    for questions, ledger in questions_with_ledger(contexts.portion.folder):
        if len(shared):
            questions = with_unique_ids(questions, shared, file)
            ledger = with_unique_ids(ledger, shared, file)
        yield _copy_by_weight(questions, ledger, contexts.keep, contexts.portion.weight, seed)


def _in_contexts(questions: Any, numbers: IntArray) -> Any:
    return with_columns(
        questions, {"context_id": numbers[questions.column("context_id").to_numpy()]}
    )


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
