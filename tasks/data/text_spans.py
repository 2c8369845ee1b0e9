"""The names, numbers, years and months of a text, and its sentences and content words.

The rules are simple ones for English: a name is a run of capitalised words, and a sentence ends
with a full stop before a capital letter or a digit.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tasks.text.tokenizer import tokenize

SpanKind = Literal["name", "number", "year", "month"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MONTHS = _words(
    "january february march april may june july august september october november december"
)
_DATE_WORDS = _MONTHS | _words("monday tuesday wednesday thursday friday saturday sunday")
_BEFORE_MONTHS = _words("in since until of by early late mid")
# Words that do not say what a sentence is about.
_FUNCTION_WORDS = _words(
    "a about after all also an and any are as at be became become been before being between both "
    "but by can could did do does during each for from had has have he her him his how i if in "
    "into is it its many may more most much name no not of on one or other over she some such than "
    "that the their them then there these they this those through to under until up was we were "
    "what when where which while who whom whose why will with would you your"
)
# Words between the capitalised words of one name, as in "Bank of England" or "Charles de Gaulle".
CONNECTORS = _words("of de la le du del di da von van der den al")
# Words next to which names of persons, places and things are all common.
_ANY_ROLE = _words(", . ; ( ) and as a for of or that the to with")
_ABBREVIATIONS = _words("mr mrs ms dr st jr sr prof gen col lt rev mt vs no")
_SENTENCE_END = re.compile(r"""[.!?]["'”’)\]]*\s+(?=["'“‘(\[]?[A-Z0-9])""")
_NUMBER = re.compile(r"(\d+(?:[.,]\d+)*)(s|st|nd|rd|th)?")
_YEAR = re.compile(r"1\d{3}|20\d{2}")
# Signs next to the numbers of a range, such as 2007–08.
_RANGE = frozenset("-–—/")
# Endings of names that are used like adjectives, and of plurals.
_ADJECTIVE = re.compile(r"(?:ish|ese|[iem]an|ch|ic)$")
_PLURAL = re.compile(r"[^aius]s$")
# Words with the same first letters count as the same content word, as do "founded" and "founder".
_STEM = 5


@dataclass(frozen=True)
class Span:
    """The tokens [start, end) of a name, number, year or month."""

    start: int
    end: int
    kind: SpanKind
    shape: tuple[object, ...]  # equal for spans that can replace each other


class Text:
    """The tokens of a text, the sentence of each, and the spans that can be swapped."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.offsets = tokenize(text)
        self.tokens = [text[start:end] for start, end in self.offsets]
        self.words = [token.casefold() for token in self.tokens]

    @cached_property
    def sentence_of(self) -> list[int]:
        """The number of each token's sentence. Doubtful ends of sentences are ignored."""
        ends = [
            match.end()
            for match in _SENTENCE_END.finditer(self.text)
            if not _follows_abbreviation(self.text, match.start())
        ]
        numbers, sentence = [], 0
        for start, _ in self.offsets:
            while sentence < len(ends) and start >= ends[sentence]:
                sentence += 1
            numbers.append(sentence)
        return numbers

    @cached_property
    def sentence_stems(self) -> list[set[str]]:
        """The stems of each sentence's content words."""
        stems: list[set[str]] = [set() for _ in range(max(self.sentence_of, default=-1) + 1)]
        for word, sentence in zip(self.words, self.sentence_of, strict=True):
            stems[sentence] |= content_stems([word])
        return stems

    @cached_property
    def spans(self) -> list[Span]:
        """All spans, in order."""
        names = list(self._names())
        inside = {token for name in names for token in range(name.start, name.end)}
        others = (self._number_or_month(i) for i in range(len(self.tokens)) if i not in inside)
        return sorted(
            [*names, *(span for span in others if span)], key=lambda span: (span.start, span.end)
        )

    def words_of(self, span: Span) -> list[str]:
        """The span's tokens in folded case."""
        return self.words[span.start : span.end]

    def text_of(self, span: Span) -> str:
        """The span as written."""
        return self.text[self.offsets[span.start][0] : self.offsets[span.end - 1][1]]

    def sentences_with(self, words: Sequence[str]) -> set[int]:
        """The sentences in which these words occur one after the other."""
        return {self.sentence_of[i] for i in self._occurrences(words)}

    def share_a_role(self, one: Sequence[str], other: Sequence[str]) -> bool:
        """Whether two names occur before or after the same informative word.

        This separates most persons ("was", "wrote") from most places ("in", "near").
        """
        return not self._roles(one).isdisjoint(self._roles(other))

    def _roles(self, name: Sequence[str]) -> set[tuple[str, str]]:
        roles: set[tuple[str, str]] = set()
        for i in self._occurrences(name):
            end = i + len(name)
            roles |= {("before", word) for word in self.words[end : end + 1]}
            roles |= {("after", word) for word in self.words[max(i - 1, 0) : i]}
        return {role for role in roles if role[1] not in _ANY_ROLE}

    def _occurrences(self, words: Sequence[str]) -> Iterator[int]:
        """Where these words occur one after the other."""
        for i, word in enumerate(self.words):
            if word == words[0] and self.words[i : i + len(words)] == words:
                yield i

    def sentences_at(self, start: int, end: int) -> set[int]:
        """The sentences of the characters [start, end)."""
        return {
            sentence
            for (first, last), sentence in zip(self.offsets, self.sentence_of, strict=True)
            if first < end and last > start
        }

    def _number_or_month(self, i: int) -> Span | None:
        token, word = self.tokens[i], self.words[i]
        beside = self.words[max(i - 1, 0) : i] + self.words[i + 1 : i + 2]
        if not _RANGE.isdisjoint(beside):
            return None
        if _YEAR.fullmatch(token) and not self._ends_name(i):
            return Span(i, i + 1, "year", ("year",))
        if (number := _NUMBER.fullmatch(token)) and not self._ends_name(i):
            ending = number[2] and ("s" if number[2] == "s" else "th")
            pattern = re.sub(r"\d", "9", number[1])
            dated = not _MONTHS.isdisjoint(beside)
            return Span(i, i + 1, "number", ("number", pattern, ending, dated))
        if word in _MONTHS and token.istitle() and (word not in ("may", "march") or self._dated(i)):
            return Span(i, i + 1, "month", ("month",))
        return None

    def _ends_name(self, i: int) -> bool:
        """Whether a number belongs to the name before it, as in "Windows 2000"."""
        return i > 0 and self._is_name_word(i - 1) and not self._begins_sentence(i - 1)

    def _dated(self, i: int) -> bool:
        """Whether a number is next to a word, or a preposition of time comes before it."""
        before, after = self.words[i - 1 : i], self.words[i + 1 : i + 2]
        numbered = any(word[0].isdigit() for word in before + after)
        return numbered or not _BEFORE_MONTHS.isdisjoint(before)

    def _names(self) -> Iterator[Span]:
        start = 0
        while start < len(self.tokens):
            end = self._end_of_name(start)
            first = start
            while first < end and self.words[first] in _FUNCTION_WORDS:
                first += 1
            numbered = self.words[end : end + 1] and self.words[end][0].isdigit()
            if (
                first < end
                and not numbered
                and (not self._begins_sentence(first) or self._inside_sentence(first))
            ):
                yield Span(first, end, "name", self._name_shape(first, end))
            start = max(end, start + 1)

    def _end_of_name(self, start: int) -> int:
        """The end of the name that begins with a token; the token itself if it is not a name's."""
        if not self._is_name_word(start):
            return start
        end = start + 1
        while more := self._continuation(end):
            end += more
        return end

    def _is_name_word(self, i: int) -> bool:
        return (
            i < len(self.tokens)
            and self.tokens[i][0].isupper()
            and self.words[i] not in _DATE_WORDS
            and self.tokens[i] != "I"
        )

    def _continuation(self, i: int) -> int:
        """How many tokens from here on continue the name before them."""
        if i >= len(self.tokens) or self.sentence_of[i] != self.sentence_of[i - 1]:
            return 0
        if self._is_name_word(i) and not self._gap(i).strip(" "):
            return 1
        if self._is_name_word(i + 1):
            joined = not self._gap(i) and (
                (self.words[i] == "-" and not self._gap(i + 1))
                or (self.words[i] == "." and self._is_abbreviation(i - 1))
            )
            return 2 * (joined or self.tokens[i] in CONNECTORS)
        return 3 * (self.tokens[i : i + 2] == ["of", "the"] and self._is_name_word(i + 2))

    def _gap(self, i: int) -> str:
        """The text between a token and the one before."""
        return self.text[self.offsets[i - 1][1] : self.offsets[i][0]]

    def _is_abbreviation(self, i: int) -> bool:
        return self.words[i] in _ABBREVIATIONS or len(self.words[i]) == 1

    def _begins_sentence(self, i: int) -> bool:
        before = self.words[i - 1 : i]
        return not before or self.sentence_of[i] != self.sentence_of[i - 1] or before[0] in '"“:'

    def _inside_sentence(self, i: int) -> bool:
        """Whether a token also occurs inside a sentence, with the same capital letters."""
        return any(
            token == self.tokens[i] and not self._begins_sentence(j)
            for j, token in enumerate(self.tokens)
        )

    def _name_shape(self, start: int, end: int) -> tuple[object, ...]:
        forms = [
            ("AA" if token.isupper() else "Aa") if token[0].isupper() else token
            for token in self.tokens[start:end]
        ]
        last = self.tokens[end - 1]
        return (
            *("name", *forms, bool(_ADJECTIVE.search(last)), bool(_PLURAL.search(last))),
            self.words[start - 1 : start] == ["the"],
        )


def content_stems(words: Iterable[str]) -> set[str]:
    """The first letters of the words that say what a sentence is about."""
    return {word[:_STEM] for word in words if word[0].isalnum() and word not in _FUNCTION_WORDS}


def stems_of(text: str) -> set[str]:
    return content_stems(text[start:end].casefold() for start, end in tokenize(text))


def _follows_abbreviation(text: str, stop: int) -> bool:
    """Whether the full stop at a position follows an abbreviation or a single letter."""
    start = stop
    while start and text[start - 1].isalnum():
        start -= 1
    return stop - start == 1 or text[start:stop].casefold() in _ABBREVIATIONS
