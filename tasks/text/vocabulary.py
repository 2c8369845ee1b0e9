"""Looks up the word and the characters of a token's form, for both training and serving."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from models.arrays import BoolArray

# pyarrow is imported locally: lookups do not need it. models.arrays would import numpy.

PADDING = 0
UNKNOWN = 1
SPECIAL = ("<padding>", "<unknown>")
"""Names of rows 0 and 1 in every vocabulary table; lookups never match them."""

_PLAIN = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "--", "—": "--"})


def case_key(form: str, lower_case: bool) -> str:
    """The form in lower case if `lower_case`, else unchanged."""
    return form.lower() if lower_case else form


def plain_punctuation(word: str) -> str:
    """The word with plain quotes and dashes, for vectors that have only those."""
    return word.translate(_PLAIN)


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
        """Index of the form's word, tried with plain quotes and dashes next; else `UNKNOWN`."""
        key = case_key(form, self.lower_case)
        index = self.word_indices.get(key)
        if index is None:
            index = self.word_indices.get(plain_punctuation(key), UNKNOWN)
        return index

    def characters(self, form: str) -> list[int]:
        """Indices of the form's characters, with their case kept; `UNKNOWN` for unseen ones."""
        return [self.character_indices.get(c, UNKNOWN) for c in form]

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read words.parquet and characters.parquet of a vocabulary or model folder."""
        import pyarrow.parquet as pq

        words: Any = pq.read_table(folder / "words.parquet", columns=["word"])
        characters: Any = pq.read_table(folder / "characters.parquet", columns=["character"])
        metadata = words.schema.metadata or {}
        return cls(
            indices(words["word"].to_pylist()[2:]),
            indices(characters["character"].to_pylist()[2:]),
            metadata[b"case"] == b"lower",
        )


def indices(entries: Iterable[str]) -> dict[str, int]:
    """The rows of the entries in a vocabulary table, after the padding and unknown rows."""
    return {entry: index for index, entry in enumerate(entries, start=len(SPECIAL))}
