"""Divides articles at random, by seed, among train, validation and dev; never splits an article.

Each article gets a lot, a pseudorandom number computed from its own text, and the articles with the
lowest lots are held out. The division therefore does not depend on the order of the articles, and
most articles keep their part when more are added. Validation takes the lowest lots of each file in
proportion to its size, because a small file may be the only one with questions of some kind, for
example unanswerable ones.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from pydantic import BaseModel, ConfigDict, Field

from tasks.datasets.catalog import Part


class Shares(BaseModel):
    """The shares of the training articles to hold out, and the seed of the draw."""

    model_config = ConfigDict(frozen=True)

    validation: float = Field(0, ge=0, lt=1)
    dev: float = Field(0, ge=0, lt=1)
    seed: int = Field(0, ge=0)


def lot(purpose: str, seed: int, text: str) -> float:
    """A pseudorandom number in [0, 1) that depends only on purpose, seed and text."""
    drawn = blake2b(f"{purpose} {seed} {text}".encode(errors="surrogatepass"), digest_size=7)
    return int.from_bytes(drawn.digest()) / 2**56


def divide(files: Sequence[Sequence[str]], shares: Shares) -> list[Part]:
    """The part of each article, in order over all files.

    `files` holds each file's articles, each identified by its text. Of n articles in total,
    round(share · n) are held out: at least one for dev if `shares.dev` is above 0, and never all of
    them. Equal articles get equal lots; their order breaks the tie.
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
    """New lots in the order of the old ones, spread evenly from 0 within each file.

    The lowest lots then make up the same share of each file, and include at least one article of
    each if enough articles are held out. The only article of a file keeps its lot.
    """
    sizes, seen = Counter(file_of[i] for i in lots), Counter[int]()
    spread: dict[int, float] = {}
    for i in sorted(lots, key=lots.__getitem__):
        file = file_of[i]
        spread[i] = seen[file] / sizes[file] if sizes[file] > 1 else lots[i]
        seen[file] += 1
    return spread


def has_validation(articles: int, shares: Shares) -> bool:
    """Whether `divide` holds out any of this many articles for validation."""
    return "validation" in divide([[""] * articles], shares)
