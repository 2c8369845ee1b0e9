"""Finds words of a corpus that seem to have run together at a lost space, as "diabetesthe" did.

A word counts as joined if it is long, consists of letters, has no vector in the packaged set, and
can be cut into two words that are both frequent. Prefixes and suffixes are not such words, because
they form new words: "antimyeloma", "extrarenal".
"""

import os
from collections.abc import Mapping
from pathlib import Path

from tasks.embeddings.formats.select import words_in_packaged

SHORTEST, SHORTEST_HALF = 7, 3  # letters
LEAST_COUNT = 50  # of either half
LEAST_RATIO = 20  # of either half's count to the joined word's
PREFIXES = frozenset(
    [
        *("alpha", "ante", "anti", "auto", "beta", "bio", "cardio", "counter", "extra", "gamma"),
        *("hyper", "hypo", "immuno"),
        *("infra", "inter", "intra", "macro", "mega", "meta", "micro", "mid", "mini", "mono"),
        *("multi", "neuro", "non", "out", "over", "para", "poly", "post", "pre", "pro", "pseudo"),
        *("radio", "semi", "sub", "super", "trans", "ultra", "under"),
    ]
)
SUFFIXES = frozenset(
    [
        *("able", "free", "ful", "ing", "ish", "ism", "ist", "ity", "less", "like", "man", "men"),
        *("ness", "ward", "wise"),
    ]
)

Halves = tuple[str, str]


def find_joined(counts: Mapping[str, int]) -> dict[str, Halves]:
    """The joined words of a corpus, most frequent first, with their halves."""
    frequent = {word for word, count in counts.items() if count >= LEAST_COUNT}
    candidates = {
        word: halves
        for word in counts
        if len(word) >= SHORTEST and word.isalpha() and (halves := _halves(word, counts, frequent))
    }
    known = words_in_packaged([word.lower() for word in candidates])
    joined = [word for word in candidates if word.lower() not in known]
    return {word: candidates[word] for word in sorted(joined, key=lambda w: (-counts[w], w))}


def _halves(word: str, counts: Mapping[str, int], frequent: set[str]) -> Halves | None:
    """The cut whose rarer half is the most frequent; None if no cut has two frequent halves."""
    cuts = range(SHORTEST_HALF, len(word) - SHORTEST_HALF + 1)
    halves = [
        (left, right)
        for left, right in ((word[:cut], word[cut:]) for cut in cuts)
        if left in frequent
        and right in frequent
        and left.lower() not in PREFIXES
        and right.lower() not in SUFFIXES
        and min(counts[left], counts[right]) >= LEAST_RATIO * counts[word]
    ]
    return max(halves, key=lambda pair: min(counts[pair[0]], counts[pair[1]]), default=None)


def split_joined(file: Path, joined: Mapping[str, Halves]) -> None:
    """Write a space into each of the joined words of a prepared corpus.txt, line by line."""
    spaced = {word.encode(): " ".join(halves).encode() for word, halves in joined.items()}
    split = file.with_suffix(".split")
    with file.open("rb") as lines, split.open("wb") as out:
        for line in lines:
            tokens = line.rstrip(b"\n").split(b" ")
            out.write(b" ".join([spaced.get(token, token) for token in tokens]) + b"\n")
    os.replace(split, file)
