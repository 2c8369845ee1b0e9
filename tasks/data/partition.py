"""Divides articles at random, by seed, among train, validation and dev; never splits an article.

Each article gets a pseudorandom number, a hash of its own text, and the articles with the lowest
numbers are held out. The division therefore does not depend on the order of the articles, and most
articles keep their part when more are added. Validation takes the lowest numbers of each file in
proportion to its size, because a small file may be the only one with questions of some kind, for
example unanswerable ones.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from pydantic import BaseModel, Field

from tasks.datasets.catalog import SplitName


class Shares(BaseModel, frozen=True):
    """The shares of the training articles to hold out, and the seed of the draw."""

    validation: float = Field(0, ge=0, lt=1)
    dev: float = Field(0, ge=0, lt=1)
    seed: int = Field(0, ge=0)


def hash_uniform(purpose: str, seed: int, text: str) -> float:
    """A pseudorandom number in [0, 1) that depends only on purpose, seed and text."""
    digest = blake2b(f"{purpose} {seed} {text}".encode(errors="surrogatepass"), digest_size=7)
    return int.from_bytes(digest.digest()) / 2**56


def divide(files: Sequence[Sequence[str]], shares: Shares) -> list[SplitName]:
    """The part of each article, in order over all files.

    `files` holds each file's articles, each identified by its text. Of n articles in total,
    round(share · n) are held out: at least one for dev if `shares.dev` is above 0, and never all of
    them. Equal articles get equal numbers; their order breaks the tie.
    """
    articles = [text for file in files for text in file]
    file_of = [number for number, file in enumerate(files) for _ in file]
    parts: list[SplitName] = ["train"] * len(articles)
    held_out: list[tuple[SplitName, float, int]] = [
        ("dev", shares.dev, 1),
        ("validation", shares.validation, 0),
    ]
    for part, share, minimum in held_out:
        count = max(round(share * len(articles)), minimum) if share else 0
        numbers = {
            i: hash_uniform(part, shares.seed, articles[i])
            for i, assigned in enumerate(parts)
            if assigned == "train"
        }
        if part == "validation":
            numbers = _spread_within_files(numbers, file_of)
        for i in sorted(numbers, key=numbers.__getitem__)[: min(count, len(numbers) - 1)]:
            parts[i] = part
    return parts


def _spread_within_files(numbers: dict[int, float], file_of: Sequence[int]) -> dict[int, float]:
    """New numbers in the order of the old ones, spread evenly from 0 within each file.

    The lowest numbers then make up the same share of each file, and include at least one article of
    each if enough articles are held out. The only article of a file keeps its number.
    """
    sizes, seen = Counter(file_of[i] for i in numbers), Counter[int]()
    spread: dict[int, float] = {}
    for i in sorted(numbers, key=numbers.__getitem__):
        file = file_of[i]
        spread[i] = seen[file] / sizes[file] if sizes[file] > 1 else numbers[i]
        seen[file] += 1
    return spread


def has_validation(articles: int, shares: Shares) -> bool:
    """Whether `divide` holds out any of this many articles for validation."""
    return "validation" in divide([[""] * articles], shares)
