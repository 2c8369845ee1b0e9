"""Divides articles among train, validation and dev: at random by the seed, and as a whole each.

Every article draws a lot from its own text, and the lowest lots are held out. So the division does
not depend on the order of the articles, and when more are added most of the others stay where they
are. Validation takes the lowest lots of each file in proportion, as a small file may be the only
one with questions of some kind, such as those without answer.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from pydantic import BaseModel, ConfigDict, Field

from tasks.datasets.catalog import Part


class Shares(BaseModel):
    """How much is held out of the training articles, and what draws it."""

    model_config = ConfigDict(frozen=True)

    validation: float = Field(0, ge=0, lt=1)
    dev: float = Field(0, ge=0, lt=1)
    seed: int = Field(0, ge=0)


def lot(purpose: str, seed: int, text: str) -> float:
    """A number in [0, 1) that only depends on purpose, seed and text."""
    drawn = blake2b(f"{purpose} {seed} {text}".encode(errors="surrogatepass"), digest_size=7)
    return int.from_bytes(drawn.digest()) / 2**56


def divide(files: Sequence[Sequence[str]], shares: Shares) -> list[Part]:
    """The part of each article, given by its text, of all files in order.

    Of n articles in all, round(share · n) are held out, but at least one for dev if it is asked
    for, and never all of them. Equal articles draw equal lots; their order decides between them.
    """
    articles = [text for file in files for text in file]
    file_of = [number for number, file in enumerate(files) for _ in file]
    parts: list[Part] = ["train"] * len(articles)
    asked: list[tuple[Part, float, int]] = [
        ("dev", shares.dev, 1),
        ("validation", shares.validation, 0),
    ]
    for part, share, least in asked:
        wanted = max(round(share * len(articles)), least) if share else 0
        lots = {
            i: lot(part, shares.seed, articles[i])
            for i, taken in enumerate(parts)
            if taken == "train"
        }
        if part == "validation":
            lots = _in_each_file(lots, file_of)
        for i in sorted(lots, key=lots.__getitem__)[: min(wanted, len(lots) - 1)]:
            parts[i] = part
    return parts


def _in_each_file(lots: dict[int, float], file_of: Sequence[int]) -> dict[int, float]:
    """The lots anew, in the order of the old ones: evenly spread from 0 on in each file, so that
    the lowest are in each the same share, and one at least where there are enough of them. The
    only article of its file keeps its own."""
    sizes, seen = Counter(file_of[i] for i in lots), Counter[int]()
    spread: dict[int, float] = {}
    for i in sorted(lots, key=lots.__getitem__):
        file = file_of[i]
        spread[i] = seen[file] / sizes[file] if sizes[file] > 1 else lots[i]
        seen[file] += 1
    return spread


def has_validation(articles: int, shares: Shares) -> bool:
    """Whether `divide` holds any of so many articles out for validation."""
    return "validation" in divide([[""] * articles], shares)
