"""Prepares a corpus for training: tokenises it once, like questions and contexts.

All nodes of the cluster take part, or all cores of this machine.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from infra.cluster.map_reduce import in_shards, map_on_cluster
from infra.errors import UserError
from infra.files import BytesRead, reporting_read_progress
from infra.reporting.progress_reporter import ProgressReporter
from tasks.embeddings.training.config import cores
from tasks.embeddings.training.corpus_files import TextFile, read_texts
from tasks.text.tokenizer import tokenize
from tasks.text.vocabulary import case_key

BLOCK_CHARACTERS = 1 << 20
MAX_LINE_TOKENS = 10_000  # gensim ignores the rest of a longer line


def prepare_corpus(out: Path, files: Sequence[TextFile], lower_case: bool) -> dict[str, Any]:
    """Write corpus.txt and words.parquet.

    corpus.txt has a paragraph per line, with a space between tokens. words.parquet has (word,
    count), most frequent first. Only blocks of the texts and the distinct words are held in memory.

    Raises:
        UserError: a file can't be read or is not text, or no file has a token.
    """
    read = BytesRead(file.path for file in files)
    counts: Counter[str] = Counter()
    paragraphs = words = 0
    with (
        ProgressReporter("corpus", None, "words") as progress,
        (out / "corpus.txt").open("wb") as corpus,
        reporting_read_progress(read.update),
    ):
        texts = (text for file in files for text in read_texts(file))
        for lines, counted, total in _tokenised(texts, lower_case):
            corpus.write(lines)
            counts.update(counted)
            paragraphs += lines.count(b"\n")
            words += total
            progress.total = words / read.share  # estimated; some blocks are in progress
            progress.report(words)
    if not words:
        names = ", ".join(file.path.name for file in files[:3])
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        raise UserError(
            f"The corpus is empty: {names}{more} contain no words. Add files with text."
        )
    write_counts(out / "words.parquet", counts)
    return {
        "files": len(files),
        "paragraphs": paragraphs,
        "words": words,
        "distinct": len(counts),
        "words_per_second": round(words / progress.seconds),
    }


Tokenised = tuple[bytes, Counter[str], int]


def tokenise_block(texts: Sequence[str], lower_case: bool) -> Tokenised:
    """Lines of space-separated tokens as UTF-8, each word's count, and the number of tokens."""
    counts: Counter[str] = Counter()
    lines: list[str] = []
    for text in texts:
        tokens = [case_key(text[start:end], lower_case) for start, end in tokenize(text)]
        counts.update(tokens)
        lines += [
            " ".join(tokens[first : first + MAX_LINE_TOKENS])
            for first in range(0, len(tokens), MAX_LINE_TOKENS)
        ]
    return "".join(f"{line}\n" for line in lines).encode(), counts, counts.total()


def _tokenised(texts: Iterable[str], lower_case: bool) -> Iterator[Tokenised]:
    """Yield the tokenised texts in order, about a million characters at a time."""
    blocks = in_shards(texts, len, BLOCK_CHARACTERS)
    first = list(islice(blocks, 2))
    return map_on_cluster(
        partial(tokenise_block, lower_case=lower_case),
        chain(first, blocks),
        processes=cores() if len(first) == 2 else 1,  # starting others takes a second
    )


def write_counts(file: Path, counts: Counter[str]) -> None:
    """Write (word, count), sorted by descending count, then by word."""
    words: Any = pa.table(
        {
            "word": pa.array(list(counts), pa.string()),
            "count": pa.array(list(counts.values()), pa.int64()),
        }
    )
    ordered = words.sort_by([("count", "descending"), ("word", "ascending")])
    pq.write_table(ordered, file, compression="zstd")


def read_paragraphs(corpus: Path) -> Iterator[list[str]]:
    """Yield the tokens of each line of a prepared corpus, a paragraph or a part of a long one."""
    with (corpus / "corpus.txt").open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield line[:-1].split(" ")


def read_vocabulary(corpus: Path, min_count: int) -> dict[str, int]:
    """Words of a prepared corpus with at least `min_count` occurrences and their counts, most
    frequent first.

    Raises:
        UserError: fewer than two words are left, which is too few to train on.
    """
    table: Any = pq.read_table(corpus / "words.parquet")
    words, counts = table["word"].to_pylist(), table["count"].to_pylist()
    kept = {w: n for w, n in zip(words, counts, strict=True) if n >= min_count}
    if len(kept) < 2:
        raise UserError(
            f"Only {len(kept)} of the corpus's {len(words)} distinct words occur at least "
            f"{min_count} times (the most frequent, {words[0]!r}, occurs {counts[0]} times). Lower "
            "min_count, or add more text."
        )
    return kept
