"""Builds the vocabulary of a dataset: words, characters and distinct forms."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel

from tasks.text.split_texts import form_counts
from tasks.text.vocabulary import (
    PADDING,
    SPECIAL,
    UNKNOWN,
    Lexicon,
    case_key,
    indices,
    is_known,
    word_of,
)


class VocabularyConfig(BaseModel, frozen=True, extra="forbid"):
    """Which words and characters get a row of their own.

    lower_case: words are looked up in lower case; characters always keep their case.
    min_count: a word without a pretrained vector needs this many occurrences in training.
    min_character_count: so does a character.
    pretrained_words: besides those of the training split, this many words are kept from the start
        of the vector file, for other texts: those of dev and of later questions.
    """

    lower_case: bool = True
    min_count: int = 2
    min_character_count: int = 5
    pretrained_words: int = 400_000


def choose_words(
    train: Mapping[str, int], vectors: Mapping[str, int], parameters: VocabularyConfig
) -> list[str]:
    """The words of the vocabulary, in order.

    `train` maps forms to counts, `vectors` words to rows. Words are sorted by descending training
    count, then by word; words that the training split lacks come last, in the order of the vectors.
    """
    counts: Counter[str] = Counter()
    for form, count in train.items():
        counts[word_of(form, vectors, parameters.lower_case)] += count
    kept = [w for w in counts if w in vectors or counts[w] >= parameters.min_count]
    kept.sort(key=lambda w: (-counts[w], w))
    first = islice(vectors, parameters.pretrained_words)
    unseen = [w for w in first if w not in counts and case_key(w, parameters.lower_case) == w]
    return [*kept, *unseen]


def choose_characters(train: Mapping[str, int], min_count: int) -> list[str]:
    """The characters of the vocabulary, by descending training count, then by code point."""
    counts: Counter[str] = Counter()
    for form, count in train.items():
        for character in form:
            counts[character] += count
    return sorted((c for c in counts if counts[c] >= min_count), key=lambda c: (-counts[c], c))


def coverage(
    counts: Mapping[str, int], vectors: Mapping[str, int], lower_case: bool
) -> dict[str, float]:
    """The shares (0 to 1) of tokens and of forms that have a vector (`_looked_up`), that would have
    one with the other `lower_case` (`_in_other_case`), or if case were ignored (`_in_any_case`).
    """
    in_lower_case = {word.lower() for word in vectors}
    lookups = {
        "looked_up": [is_known(form, vectors, lower_case) for form in counts],
        "in_other_case": [is_known(form, vectors, not lower_case) for form in counts],
        "in_any_case": [is_known(form, in_lower_case, lower_case=True) for form in counts],
    }
    tokens = np.fromiter(counts.values(), dtype=np.float64)
    shares = {}
    for name, known in lookups.items():
        shares[f"forms_{name}"] = float(np.mean(known)) if known else 0.0
        shares[f"tokens_{name}"] = float(np.dot(known, tokens) / max(tokens.sum(), 1.0))
    return shares


def build_vocabulary(
    out: Path,
    train: Path,
    others: Sequence[Path],
    vectors: Path,
    parameters: VocabularyConfig,
) -> dict[str, Any]:
    """Write words.parquet, characters.parquet and types.parquet; return statistics about them.

    `train` and `others` are folders of ingested splits; `vectors` is a folder that `select_vectors`
    wrote. Words, characters and counts come from `train` and `vectors` alone. `others` only add
    forms, so that they can be encoded: a model is evaluated with the words that it has when it is
    served.
    """
    counts, other_counts = form_counts([train]), form_counts(others)
    rows = vector_rows(vectors)
    words = choose_words(counts, rows, parameters)
    characters = choose_characters(counts, parameters.min_character_count)
    lexicon = Lexicon(indices(words), indices(characters), parameters.lower_case)
    forms = [*counts, *(form for form in other_counts if form not in counts)]
    types = types_table(forms, lexicon)
    weights = np.fromiter((counts.get(form, 0) for form in forms), np.int64, len(forms))
    tables = {
        "types": types,
        "words": words_table(words, types, weights, rows, parameters.lower_case),
        "characters": characters_table(characters, types, weights),
    }
    for name, table in tables.items():
        pq.write_table(table, out / f"{name}.parquet", compression="zstd")
    return {
        "words": len(words),
        "characters": len(characters),
        "types": len(forms),
        "coverage_train": coverage(counts, rows, parameters.lower_case),
        "coverage_others": coverage(other_counts, rows, parameters.lower_case),
    }


def vector_rows(folder: Path) -> dict[str, int]:
    """The words that have vectors, and their rows."""
    words: Any = pq.read_table(folder / "vectors.parquet", columns=["word"])["word"].to_pylist()
    return {word: row for row, word in enumerate(words)}


def types_table(forms: Sequence[str], lexicon: Lexicon) -> pa.Table:
    """The table of forms with word and character indices, after the padding and unknown rows."""
    words = [PADDING, UNKNOWN, *map(lexicon.word, forms)]
    characters = [[], [UNKNOWN], *map(lexicon.characters, forms)]
    return pa.table(
        {
            "index": pa.array(range(len(words)), pa.int32()),
            "form": pa.array([*SPECIAL, *forms], pa.string()),
            "word": pa.array(words, pa.int32()),
            "characters": pa.array(characters, pa.list_(pa.int32())),
        }
    )


def words_table(
    words: Sequence[str],
    types: pa.Table,
    weights: npt.NDArray[np.int64],
    vectors: Mapping[str, int],
    lower_case: bool,
) -> pa.Table:
    """The table of words with their training counts.

    `weights` are the training counts of the forms, (forms,), without the two special rows.
    """
    return pa.table(
        {
            "index": pa.array(range(len(words) + len(SPECIAL)), pa.int32()),
            "word": pa.array([*SPECIAL, *words], pa.string()),
            "count": _totals(types["word"].to_numpy()[len(SPECIAL) :], weights, len(words)),
            "in_vectors": pa.array([False, False, *(word in vectors for word in words)]),
        },
        metadata={"case": "lower" if lower_case else "keep"},
    )


def characters_table(
    characters: Sequence[str], types: pa.Table, weights: npt.NDArray[np.int64]
) -> pa.Table:
    """The table of characters with their training counts.

    `weights` are the training counts of the forms, (forms,), without the two special rows.
    """
    lists: Any = types["characters"].combine_chunks()[len(SPECIAL) :]
    repeated = np.repeat(weights, pc.list_value_length(lists).to_numpy())
    return pa.table(
        {
            "index": pa.array(range(len(characters) + len(SPECIAL)), pa.int32()),
            "character": pa.array([*SPECIAL, *characters], pa.string()),
            "count": _totals(lists.flatten().to_numpy(), repeated, len(characters)),
        }
    )


def _totals(
    ids: npt.NDArray[np.integer], weights: npt.NDArray[np.int64], entries: int
) -> pa.Int64Array:
    """The sum of the weights for each id, (entries + 2,); exact up to 2^53."""
    return pa.array(np.bincount(ids, weights, entries + len(SPECIAL)), pa.int64())
