"""Errors in answers: their kinds and descriptions, and where the context has the answer instead."""

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from html import unescape
from typing import Literal, NamedTuple

from tasks.data.schema import Answer

AnswerErrorKind = Literal[
    "invalid-field",
    "empty-question",
    "no-answer",
    "empty-answer",
    "wrong-offset",
    "other-white-space",
    "other-unicode-form",
    "other-characters",
    "absent",
]
ERROR_DESCRIPTIONS: dict[AnswerErrorKind, str] = {
    "invalid-field": "a field of the question is missing or invalid",
    "empty-question": "the question is empty",
    "no-answer": "the question has no answer and is not marked is_impossible",
    "empty-answer": "the answer is empty",
    "wrong-offset": "the answer is in the context, but not at its answer_start",
    "other-white-space": "the answer is in the context with different white space",
    "other-unicode-form": "the answer is in the context in a different Unicode form",
    "other-characters": "the answer is in the context with other case, quotes, dashes, HTML "
    "entities or zero-width characters",
    "absent": "the answer is not in the context",
}


class AnswerError(NamedTuple):
    """An error: its kind, its explanation, and the corrected answer if there is one."""

    kind: AnswerErrorKind
    reason: str
    correction: Answer | None = None


def matches_context(answer: Answer, context: str) -> bool:
    """Whether the context has the answer's text, which must not be blank, at its answer_start."""
    start = answer.answer_start
    return start >= 0 and context.startswith(answer.text, start) and bool(answer.text.strip())


def diagnose(answer: Answer, context: str) -> AnswerError:
    """The error of an answer that does not match the context at its answer_start.

    The search looks for the answer verbatim, then with each run of white space as one space, then
    also in Unicode's compatibility form (NFKC), then also without regard to case, to HTML entities,
    to zero-width characters and to the form of quotes and dashes. The match nearest to
    answer_start wins. The correction is the context's own text at that place.
    """
    if not answer.text.strip():
        return AnswerError("empty-answer", ERROR_DESCRIPTIONS["empty-answer"])
    mismatch = _mismatch(answer, context)
    place = _nearest(answer.text, answer.answer_start, context)
    if place >= 0:
        correction = Answer(text=answer.text, answer_start=place)
        return AnswerError("wrong-offset", f"{mismatch}; nearest match at {place}", correction)
    for kind in _FOLDINGS:
        similar = _similar(answer, _folded(context, kind), context, kind)
        if similar:
            reason = f"{mismatch}; similar text {similar.text!r} at {similar.answer_start}"
            return AnswerError(kind, reason, similar)
    return AnswerError("absent", f"{mismatch}; no match elsewhere")


def _mismatch(answer: Answer, context: str) -> str:
    text, start = _shortened(answer.text), answer.answer_start
    if start == -1:
        return "the answer has no answer_start"
    if not 0 <= start < len(context):
        return f"answer_start={start} is outside the context ({len(context)} characters)"
    actual = _shortened(context[start : start + len(answer.text)])
    return f"the context has {actual!r} at answer_start={start}, not {text!r}"


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:38]} … {text[-38:]}"


def _nearest(
    text: str, start: int, context: str, accept: Callable[[int], bool] = lambda place: True
) -> int:
    """The accepted offset of an occurrence of a text that is nearest to `start`, or -1."""
    before = context.rfind(text, 0, max(start, 0) + len(text))
    while before >= 0 and not accept(before):
        before = context.rfind(text, 0, before + len(text) - 1)
    after = context.find(text, max(start, 0))
    while after >= 0 and not accept(after):
        after = context.find(text, after + 1)
    places = (place for place in (before, after) if place >= 0)
    return min(places, key=lambda place: abs(place - start), default=-1)


# Texts that differ only in white space or Unicode form

_TYPOGRAPHIC = str.maketrans(
    "“”„«»‘’‚`´–—‐‑",
    '"' * 5 + "'" * 5 + "-" * 4,
    "\u200b\u200c\u200d\u2060\ufeff\u00ad",  # zero-width characters, and the soft hyphen
)


def _compatible(piece: str) -> str:
    return unicodedata.normalize("NFKC", piece)


def _plain(piece: str) -> str:
    return _compatible(unescape(piece)).translate(_TYPOGRAPHIC).casefold()


_FOLDINGS: dict[AnswerErrorKind, Callable[[str], str]] = {
    "other-white-space": str,
    "other-unicode-form": _compatible,
    "other-characters": _plain,
}
# Composition joins a character with the marks after it, and the parts of a Korean syllable.
_JOINED = "".join(
    character
    for character in map(chr, range(0x300, 0x10000))
    if unicodedata.category(character).startswith("M") or "\u1160" <= character <= "\u11ff"
)


@lru_cache(maxsize=2)
def _pieces(plain: bool) -> re.Pattern[str]:
    """Matches white space, words that NFKC leaves unchanged, or a character with its marks; if
    `plain`, an HTML entity instead of words."""
    if plain:
        return re.compile(rf"(\s+)|((?!))|&#?\w{{1,31}};|\S[{_JOINED}]*")
    basic = map(chr, range(0x80, 0x10000))
    changed = (c for c in basic if not c.isspace() and unicodedata.normalize("NFKC", c) != c)
    # A single range excludes everything above U+FFFF: re searches longer lists of it linearly.
    word = rf"[^\s{_JOINED}{''.join(changed)}\U00010000-\U0010ffff]+"
    return re.compile(rf"(\s+)|({word}(?: {word}){{,1000}})(?![{_JOINED}])|\S[{_JOINED}]*")


class _Folded(NamedTuple):
    text: str
    starts: "array[int]"  # where each character's piece begins in the original text
    ends: "array[int]"  # and where that piece ends

    def has_whole_pieces(self, first: int, last: int) -> bool:
        """Whether no piece extends beyond these characters: the "1" of "½" is not a whole piece."""
        begins = not first or self.starts[first - 1] < self.starts[first]
        return begins and (last + 1 == len(self.text) or self.ends[last] < self.ends[last + 1])


@lru_cache(maxsize=8)  # keeps the context whose questions are being aligned
def _folded(text: str, kind: AnswerErrorKind) -> _Folded:
    characters: list[str] = []
    starts, ends = array("i"), array("i")
    for match in _pieces(kind == "other-characters").finditer(text):
        first, last = match.span()
        if match[2] is not None:
            characters.append(match[2])
            starts.extend(range(first, last))
            ends.extend(range(first + 1, last + 1))
            continue
        piece = " " if match[1] is not None else _FOLDINGS[kind](match[0])
        characters.append(piece)
        starts.extend([first] * len(piece))
        ends.extend([last] * len(piece))
    return _Folded("".join(characters), starts, ends)


def _similar(
    answer: Answer, context: _Folded, original: str, kind: AnswerErrorKind
) -> Answer | None:
    """The nearest text of the context that equals the answer when both are folded, or None."""
    folded = _folded(answer.text.strip(), kind).text
    place = _nearest(
        folded,
        bisect_left(context.starts, answer.answer_start),
        context.text,
        lambda place: context.has_whole_pieces(place, place + len(folded) - 1),
    )
    if place < 0 or not folded:
        return None
    start, end = context.starts[place], context.ends[place + len(folded) - 1]
    return Answer(text=original[start:end], answer_start=start)
