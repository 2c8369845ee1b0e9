"""Looks up the word and the characters of a token's form, for both training and serving.

`word_of` is the only rule for tokens of texts, whatever the words are: a set's words, to measure
coverage and OOV slices, or a model's vocabulary, which also has words without a vector. Words
composed from n-grams do not count as words of either. Three rules differ on purpose:

- `query_word` is for words that a person or a published test names. They are looked up as written
  first, because cased sets have names such as "John" with a capital. Quotes stay as they are.
- Word similarity and WEAT also cover words with a composed vector.
- Rows of zeros count as vectors here, but not where cosines are computed or rows are trained.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self

# pyarrow is imported locally: lookups do not need it.

PADDING = 0
UNKNOWN = 1
# Names of rows 0 and 1 in every vocabulary table; lookups never match them.
SPECIAL = ("<padding>", "<unknown>")

_PLAIN = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "--", "—": "--"})


def case_key(form: str, lower_case: bool) -> str:
    """The form in lower case if `lower_case`, else unchanged."""
    return form.lower() if lower_case else form


def lookup_keys(form: str, lower_case: bool) -> tuple[str, str]:
    """The words under which a token's form is looked up, in order.

    The first follows the case policy. The second also has composed letters (NFC), and plain quotes
    and dashes, for vectors that have only those.
    """
    key = case_key(form, lower_case)
    return key, key if key.isascii() else unicodedata.normalize("NFC", key).translate(_PLAIN)


def word_of(form: str, known: Container[str], lower_case: bool) -> str:
    """The first of the form's `lookup_keys` that is in `known`; the last if it has neither."""
    key, plain = lookup_keys(form, lower_case)
    return key if key in known else plain


def is_known(form: str, known: Container[str], lower_case: bool) -> bool:
    """Whether `known` has the form's word, so that it is not OOV."""
    return word_of(form, known, lower_case) in known


def query_word(word: str, known: Container[str]) -> str:
    """The word as written if it is in `known`, else in lower case."""
    return word if word in known else word.lower()


@dataclass(frozen=True)
class Lexicon:
    """Indices of words and characters, to look up forms; the form itself is never changed."""

    word_indices: Mapping[str, int]
    character_indices: Mapping[str, int]
    lower_case: bool

    def word(self, form: str) -> int:
        """Index of the form's word; `UNKNOWN` if the vocabulary lacks it."""
        return self.word_indices.get(word_of(form, self.word_indices, self.lower_case), UNKNOWN)

    def with_oov_rows(self, forms: Iterable[str]) -> tuple[list[int], list[str]]:
        """The word index of each form, for models that compose OOV words from n-grams, and these
        words: they have rows of their own after those of the vocabulary, in their order."""
        rows = defaultdict[str, int](count(len(SPECIAL) + len(self.word_indices)).__next__)
        words = []
        for form in forms:
            word = word_of(form, self.word_indices, self.lower_case)
            words.append(self.word_indices[word] if word in self.word_indices else rows[word])
        return words, list(rows)

    def characters(self, form: str) -> list[int]:
        """Indices of the form's characters, with their case kept; `UNKNOWN` for unseen ones."""
        return [self.character_indices.get(c, UNKNOWN) for c in form]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read words.parquet and characters.parquet of a vocabulary or model folder."""
        import pyarrow.parquet as pq

        words: Any = pq.read_table(folder / "words.parquet", columns=["word"])
        characters: Any = pq.read_table(folder / "characters.parquet", columns=["character"])
        return cls(
            indices(words["word"].to_pylist()[2:]),
            indices(characters["character"].to_pylist()[2:]),
            words.schema.metadata[b"case"] == b"lower",
        )


def indices(entries: Iterable[str]) -> dict[str, int]:
    """The rows of the entries in a vocabulary table, after the padding and unknown rows."""
    return {entry: index for index, entry in enumerate(entries, start=len(SPECIAL))}
