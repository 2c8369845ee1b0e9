"""Looks up the word and the characters of a token's form, for both training and serving.

`word_of` is the only rule for tokens of texts, whatever the words are: a set's words, to measure
coverage and OOV slices, or a model's vocabulary, which also has words without a vector. Words
composed from n-grams do not count as words of a set. Three rules differ on purpose:

- `query_word` is for words that a person or a published test names. They are looked up as written
  first, because cased sets have names such as "John" with a capital. Quotes stay as they are.
- Word similarity and WEAT also cover words with a composed vector.
- Rows of zeros count as vectors here, but not where cosines are computed or rows are trained.
"""

import unicodedata
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from models.arrays import BoolArray

# pyarrow is imported locally: lookups do not need it. models.arrays would import numpy.

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


def composed_mask(vectors: Path) -> "BoolArray":
    """(words,) which rows of a vectors.parquet were composed from n-grams.

    Earlier releases wrote the column as `spelt`.
    """
    import pyarrow.parquet as pq

    name = "composed" if "composed" in pq.read_schema(vectors).names else "spelt"
    mask: BoolArray = pq.read_table(vectors, columns=[name])[name].to_numpy()
    return mask


@dataclass(frozen=True)
class Lexicon:
    """Indices of words and characters, to look up forms; the form itself is never changed."""

    word_indices: Mapping[str, int]
    character_indices: Mapping[str, int]
    lower_case: bool

    def word(self, form: str) -> int:
        """Index of the form's word; `UNKNOWN` if the vocabulary lacks it."""
        return self.word_indices.get(word_of(form, self.word_indices, self.lower_case), UNKNOWN)

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
