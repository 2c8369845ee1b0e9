"""The slices of the questions: by question word, and by lengths."""

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

QUESTION_WORD = re.compile(
    r"\b(how (?:many|much)|how|who|whom|whose|what|when|where|which|why)\b", re.IGNORECASE
)


def question_word(question: str) -> str:
    """The first question word in a question, "how many" and "how much" as one, else "other"."""
    found = QUESTION_WORD.search(question)
    word = found[1].lower() if found else "other"
    return {"whom": "who", "whose": "who", "how much": "how many"}.get(word, word)


def length_bucket(length: int, edges: Sequence[int]) -> int:
    """The number of the bucket whose upper edge, inclusive, is the first not below the length."""
    return int(np.searchsorted(edges, length))


def bucket_names(edges: Sequence[int]) -> list[str]:
    """What each bucket holds, such as "up to 100", "101–150", "over 150"."""
    pairs = pairwise([0, *edges])
    middle = [str(high) if high == low + 1 else f"{low + 1}–{high}" for low, high in pairs]
    first = middle[0] if edges[0] == 1 else f"up to {edges[0]}"
    return [first, *middle[1:], f"over {edges[-1]}"]
