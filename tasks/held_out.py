"""Divides articles among train, validation and dev: at random by the seed, and as a whole each.

Every article draws a lot from its own text, and the lowest lots are held out. So the division
depends neither on the order of the articles nor on how they stand in files, and when more articles
are added most of the others stay where they are.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Part = Literal["all", "train", "validation", "dev"]


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


def divide(articles: Sequence[str], shares: Shares) -> list[Part]:
    """The part of each article, given by its text.

    Of n articles round(share · n) are held out, but at least one for dev if it is asked for, and
    never all of them. Equal articles draw equal lots; their order decides between them.
    """
    parts: list[Part] = ["train"] * len(articles)
    asked: list[tuple[Part, float, int]] = [
        ("dev", shares.dev, 1),
        ("validation", shares.validation, 0),
    ]
    for part, share, least in asked:
        wanted = max(round(share * len(articles)), least) if share else 0
        left = [i for i, taken in enumerate(parts) if taken == "train"]
        left.sort(key=lambda i: lot(part, shares.seed, articles[i]))
        for i in left[: min(wanted, len(left) - 1)]:
            parts[i] = part
    return parts


def has_validation(articles: int, shares: Shares) -> bool:
    """Whether `divide` holds any of so many articles out for validation."""
    return "validation" in divide([""] * articles, shares)
