"""The tables of ingested files and splits: schemas, writing, reading and statistics.

Also refuses contexts and question ids that occur where they must not: twice, or in two files.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from infra.errors import UserError
from infra.files import row_batches
from models.arrays import BoolArray, IntArray

_OFFSETS: dict[str, pa.DataType] = {
    "token_starts": pa.list_(pa.int32()),
    "token_ends": pa.list_(pa.int32()),
}
_ERROR: dict[str, pa.DataType] = {
    "fault": pa.string(),  # an `AnswerErrorKind`
    "reason": pa.string(),
    "gold": pa.string(),
    "gold_start": pa.int32(),
    "repaired": pa.string(),  # null unless it was repaired; so is repaired_start
    "repaired_start": pa.int32(),
}
_TABLES: dict[str, dict[str, pa.DataType]] = {
    "contexts": {
        "context_id": pa.int32(),
        "article": pa.int32(),
        "title": pa.string(),
        "text": pa.string(),
        **_OFFSETS,
    },
    "questions": {
        "id": pa.string(),
        "context_id": pa.int32(),
        "question": pa.string(),
        **_OFFSETS,
        "answers": pa.list_(pa.struct([("text", pa.string()), ("start", pa.int32())])),
        "is_impossible": pa.bool_(),
        "span_start": pa.int32(),
        "span_end": pa.int32(),
    },
    "alignment": {  # the ledger: its rows correspond to those of the questions
        "id": pa.string(),
        "outcome": pa.string(),
        **_ERROR,  # of the training answer; `fault` is null if it has none
        "answer_errors": pa.list_(pa.struct(list(_ERROR.items()))),  # of all answers
        "span": pa.string(),
        "em": pa.float32(),
        "f1": pa.float32(),
    },
}

# The schemas of the three files of an ingested file or split.
TABLES = {name: pa.schema(columns) for name, columns in _TABLES.items()}
# Metadata of an ingested file's contexts.parquet: whether the file has rows, in which a title, and
# not a record, makes an article.
FROM_ROWS = "from_rows"


@dataclass(frozen=True)
class Portion:
    """An ingested file, and how often each of its questions occurs in an epoch."""

    folder: Path
    name: str
    weight: float = 1.0
    divided: bool = True  # among train, validation and dev; otherwise all articles are in train


def batches(path: Path, columns: list[str] | None = None) -> Iterator[Any]:
    """Yield the record batches of a Parquet file, optionally of some columns only."""
    with pq.ParquetFile(path) as file:
        yield from row_batches(file, rows=4096, columns=columns)


def questions_with_ledger(folder: Path) -> Iterator[tuple[Any, Any]]:
    """Yield the batches of a folder's questions, each with the batch of their ledger rows.

    The two files have equal row groups: both are written in the same batches.
    """
    return zip(
        batches(folder / "questions.parquet"), batches(folder / "alignment.parquet"), strict=True
    )


def with_columns(batch: Any, columns: Mapping[str, Any]) -> Any:
    """A record batch with the values of some columns replaced."""
    arrays = [
        pa.array(columns[field.name], field.type) if field.name in columns else old
        for field, old in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


class TablesWriter:
    """Writes the three tables of an ingested file or split batch by batch, and counts what is in
    them. Each batch of questions is a row group, and so are the rows of their ledger."""

    def __init__(self, writers: Mapping[str, pq.ParquetWriter]) -> None:
        self._writers = writers
        self.counts: Counter[str] = Counter()
        self._scores = {"em": 0.0, "f1": 0.0}

    def add_contexts(self, contexts: Any) -> None:
        """Write a record batch of contexts."""
        if contexts.num_rows:
            self._writers["contexts"].write_batch(contexts)
            self.counts["contexts"] += contexts.num_rows
            self.counts["context_tokens"] += _total_length(contexts, "token_starts")

    def add_questions(self, questions: Any, ledger: Any) -> None:
        """Write a record batch of questions, and the rows of their ledger."""
        if questions.num_rows:
            self._writers["questions"].write_batch(questions)
            self._writers["alignment"].write_batch(ledger)
            self.counts["questions"] += questions.num_rows
            self.counts["question_tokens"] += _total_length(questions, "token_starts")
            self.counts.update(ledger.column("outcome").to_pylist())
            self.counts["invalid_answers"] += _total_length(ledger, "answer_errors")
            for name in self._scores:
                self._scores[name] += pc.sum(ledger.column(name)).as_py()

    def describe_contexts(self, metadata: dict[str, str]) -> None:
        """Add metadata to the file of the contexts."""
        self._writers["contexts"].add_key_value_metadata(metadata)

    def facts(self) -> dict[str, int | float]:
        """The statistics of a file or split: counts, and the mean oracle scores (0..100)."""
        counts, questions = self.counts, self.counts["questions"]
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
            "invalid_answers": counts["invalid_answers"],
            "oracle_em": 100 * self._scores["em"] / questions,
            "oracle_f1": 100 * self._scores["f1"] / questions,
            "context_tokens": counts["context_tokens"],
            "question_tokens": counts["question_tokens"],
        }


def _total_length(batch: Any, column: str) -> int:
    """The number of items in all lists of a column."""
    return int(pc.sum(pc.list_value_length(batch.column(column))).as_py() or 0)


@contextmanager
def writing_tables(folder: Path, schemas: Mapping[str, pa.Schema]) -> Iterator[TablesWriter]:
    """A writer of the Parquet files of a folder, one for each schema, by its name."""
    with ExitStack() as closing:
        yield TablesWriter(
            {
                name: closing.enter_context(
                    pq.ParquetWriter(folder / f"{name}.parquet", schema, compression="zstd")
                )
                for name, schema in schemas.items()
            }
        )


def normalized(text: str) -> str:
    """The text with single spaces and folded case, for comparison."""
    return " ".join(text.split()).casefold()


def fingerprint(text: str) -> bytes | None:
    """The 16-byte digest of the normalised text; None for an empty one, which matches no other."""
    plain = normalized(text)
    return blake2b(plain.encode(errors="surrogatepass"), digest_size=16).digest() if plain else None


class Contexts:
    """A portion's contexts: their articles and fingerprints, and which of them are kept."""

    def __init__(self, portion: Portion) -> None:
        self.portion = portion
        # The title of each article, and the fingerprints of its contexts.
        self.articles = [
            (title, list(map(fingerprint, texts))) for title, texts in self.by_article()
        ]
        self.fingerprints = [digest for _, digests in self.articles for digest in digests]
        # The position of each context's article in `articles`.
        self.article_of = np.repeat(
            np.arange(len(self.articles)), [len(digests) for _, digests in self.articles]
        )
        metadata = pq.read_metadata(portion.folder / "contexts.parquet").metadata or {}
        self.from_rows = metadata.get(FROM_ROWS.encode()) == b"True"
        # Whether each article of `articles` has questions.
        self.has_questions = articles_with_questions(portion.folder)
        self.keep = np.ones(len(self.fingerprints), dtype=np.bool_)

    def by_article(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the title and the texts of each article's contexts; reads one at a time."""
        columns = ["article", "title", "text"]
        rows = (
            row
            for batch in batches(self.portion.folder / "contexts.parquet", columns)
            for row in zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
        )
        for (_, title), article in groupby(rows, itemgetter(0, 1)):
            yield title, [text for *_, text in article]

    def leave_out(self, known: set[bytes]) -> int:
        """Leave out contexts with a known fingerprint; returns how many were newly left out."""
        before = int(self.keep.sum())
        self.keep &= np.array([digest not in known for digest in self.fingerprints], dtype=np.bool_)
        return before - int(self.keep.sum())


def article_keys(contexts: Sequence[Contexts]) -> list[list[str]]:
    """A key for each article of each portion: equal for those with the same texts, whatever their
    titles, and for those with the same title in several files of rows.

    It has the fingerprints of the article's different contexts, or its title if all are empty.
    """
    titled: dict[str, set[bytes | None]] = defaultdict(set)
    for portion in contexts:
        for title, digests in portion.articles if portion.from_rows else ():
            titled[title].update(digests)
    return [
        [
            _article_key(title, titled[title] if portion.from_rows and title else digests)
            for title, digests in portion.articles
        ]
        for portion in contexts
    ]


def _article_key(title: str, digests: Iterable[bytes | None]) -> str:
    return "\n".join(sorted({digest.hex() for digest in digests if digest})) or title


def articles_with_questions(folder: Path) -> BoolArray:
    """Whether each article of an ingested file has questions, for the articles with contexts."""
    articles: Any = pq.read_table(folder / "contexts.parquet", columns=["article"])["article"]
    contexts: Any = pq.read_table(folder / "questions.parquet", columns=["context_id"])
    numbers, article_of = np.unique(articles.to_numpy(), return_inverse=True)
    has_questions = np.zeros(len(numbers), dtype=np.bool_)
    has_questions[article_of[contexts["context_id"].to_numpy()]] = True
    return has_questions


def fingerprints(splits: Iterable[Path]) -> set[bytes]:
    """The fingerprints of all contexts of ingested splits, 16 bytes each."""
    return {
        digest
        for split in splits
        for batch in batches(split / "contexts.parquet", ["text"])
        for text in batch.column("text").to_pylist()
        if (digest := fingerprint(text))
    }


def refuse_overlap(training: Sequence[Contexts], evaluation: set[bytes]) -> None:
    """Raises UserError if training contexts also occur in the evaluation set.

    Contexts that differ only in white space and case are equal. The message states how many
    contexts overlap and shows an example.
    """
    shared = [
        (contexts, row)
        for contexts in training
        for row, digest in enumerate(contexts.fingerprints)
        if digest in evaluation
    ]
    if shared:
        contexts, row = shared[0]
        table = pq.read_table(contexts.portion.folder / "contexts.parquet", columns=["text"])
        text = str(table["text"][row])
        raise UserError(
            f"{len(shared)} of {sum(len(contexts.keep) for contexts in training)} training "
            f"contexts also occur in the evaluation set, e.g. context {row + 1} of "
            f'{contexts.portion.name}: "{text if len(text) <= 60 else text[:57] + "…"}". Evaluate '
            'on other articles, or leave these contexts out of training (--data.overlap "leave '
            'out").'
        )


def refuse_repeated_ids(folder: Path) -> None:
    """Raises UserError if two questions of an ingested file share an id; names both places."""
    digests = _id_digests(folder)
    order = np.argsort(digests, kind="stable")
    repeated = order[1:][digests[order[1:]] == digests[order[:-1]]]
    if len(repeated):
        rows = np.flatnonzero(digests == digests[repeated.min()])[:2]
        table = pq.read_table(folder / "questions.parquet", columns=["id", "context_id"])
        first, second = (_place(folder, table["context_id"][row].as_py()) for row in rows)
        raise UserError(
            f'question id "{table["id"][rows[0]]}" occurs twice, in {first} and in {second}. '
            "Give each question a unique id."
        )


def shared_ids(portions: Sequence[Contexts]) -> IntArray:
    """The digests of ids that several files have for different questions, as those of several
    languages do.

    Raises UserError if two files share a question about the same context; the message names both.
    """
    if len(portions) < 2:
        return np.array([], dtype=np.uint64)
    shared = _repeated([_id_digests(contexts.portion.folder) for contexts in portions])
    if len(shared):
        digests = [_question_digests(contexts, shared) for contexts in portions]
        for digest in _repeated(digests)[:1]:
            first, second = [file for file, found in enumerate(digests) if digest in found][:2]
            raise UserError(
                f"{portions[first].portion.name} and {portions[second].portion.name} share "
                f"questions: {len(_repeated(digests))} with the same id, text and context. List "
                "each file only once, or remove the questions from one of them."
            )
    return shared


def _repeated(digests: Sequence[IntArray]) -> IntArray:
    """The digests that occur in several files; none occurs twice in one."""
    unique, counts = np.unique(np.concatenate(digests), return_counts=True)
    repeated: IntArray = unique[counts > 1]
    return repeated


def _question_digests(contexts: Contexts, ids: IntArray) -> IntArray:
    """A digest of each question with one of these ids: of its id, its text and its context."""
    columns = ["id", "question", "context_id"]
    rows = (
        [id, question, contexts.fingerprints[context]]
        for batch in batches(contexts.portion.folder / "questions.parquet", columns)
        for id, question, context in zip(*batch.to_pydict().values(), strict=True)
        if _digest(id) in ids
    )
    return np.fromiter((_digest(repr(row)) for row in rows), dtype=np.uint64)


def with_unique_ids(batch: Any, shared: IntArray, file: str) -> Any:
    """Questions or their ledger, with the file's name in each id that another file has, too."""
    ids = batch.column("id").to_pylist()
    unique = [f"{id} ({file})" if _digest(id) in shared else id for id in ids]
    return with_columns(batch, {"id": unique})


def hash_uniform(purpose: str, seed: int, text: str) -> float:
    """A pseudorandom number in [0, 1) that depends only on purpose, seed and text."""
    digest = blake2b(f"{purpose} {seed} {text}".encode(errors="surrogatepass"), digest_size=7)
    return int.from_bytes(digest.digest()) / 2**56


def _id_digests(folder: Path) -> IntArray:
    """An 8-byte digest of each question's id, long enough to distinguish millions of ids."""
    digests = (
        _digest(text)
        for batch in batches(folder / "questions.parquet", ["id"])
        for text in batch.column("id").to_pylist()
    )
    return np.fromiter(digests, dtype=np.uint64)


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _place(folder: Path, context: int) -> str:
    table = pq.read_table(folder / "contexts.parquet", columns=["article", "title"])
    article = table["article"].to_numpy()
    paragraph = context - int(np.searchsorted(article, article[context])) + 1
    return f'article {article[context] + 1} "{table["title"][context]}", paragraph {paragraph}'
