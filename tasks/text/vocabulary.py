"""From a token's form to its word and its characters: one look-up for training and for serving."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

# pyarrow is imported where it is used: looking words up does without it.

PADDING = 0
UNKNOWN = 1
SPECIAL = ("<padding>", "<unknown>")
"""Names of rows 0 and 1 of every vocabulary table; no form is ever looked up by them."""

_TYPEWRITER = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "--", "—": "--"}
)


def case_key(form: str, lower_case: bool) -> str:
    """The word that a form spells under the case policy."""
    return form.lower() if lower_case else form


def typewriter(word: str) -> str:
    """The word with plain quotes and dashes, for vectors that know only those."""
    return word.translate(_TYPEWRITER)


@dataclass(frozen=True)
class Lexicon:
    """Indices of words and characters. The form itself is never changed, only looked up."""

    word_indices: Mapping[str, int]
    character_indices: Mapping[str, int]
    lower_case: bool

    def word(self, form: str) -> int:
        """Index of the form's word, with plain quotes and dashes if it is unknown as it stands."""
        key = case_key(form, self.lower_case)
        index = self.word_indices.get(key)
        if index is None:
            index = self.word_indices.get(typewriter(key), UNKNOWN)
        return index

    def characters(self, form: str) -> list[int]:
        """Indices of all the form's characters, case kept, unseen ones unknown."""
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
    """Positions in a vocabulary table of the entries behind padding and unknown."""
    return {entry: index for index, entry in enumerate(entries, start=len(SPECIAL))}
