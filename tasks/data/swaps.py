"""Swaps a name, number, year or month of a question for another one of its context.

The new span has the shape of the old one, and the context should no longer answer the question,
like the entity swaps of SQuAD 2.0 (Rajpurkar et al. 2018, table 1). So these rules hold:

- The old span occurs in the context; a number, year or month does so in a sentence with an answer.
- The new span occurs in no sentence with an answer, and in none that shares a content word with the
  rest of the question, because such a sentence may answer the new question.
- No word of the new span occurs in the question, in an answer or, for a name, in the article's
  title or in another form of the old name.
- A new name occurs before or after the same word as the old one somewhere in the context.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.data.text_spans import CONNECTORS, Span, SpanKind, Text, content_stems, stems_of

# Fewest content words of a question without its old span.
_LEAST_CONTENT = 2
# Names whose first letters are equal may name the same thing, as may "Barça" and "Barcelona".
_ALIAS = 3


@dataclass(frozen=True)
class Swap:
    """A changed question, and the old and new text of the span in which it differs."""

    question: str
    kind: SpanKind
    old: str
    new: str


def possible_swaps(
    question: Text, context: Text, answers: Sequence[tuple[str, int]], title: str
) -> list[Swap]:
    """All swaps that the rules allow, in the order of the question and then of the context.

    `answers` are the gold answers: text and first character in the context. `title` is that of the
    article. A question with "or" has no swaps, because it names its possible answers.
    """
    if "or" in question.words:
        return []
    rules = _Rules(question, context, answers, title)
    swaps = [
        _replaced(question, span, context.text_of(candidate))
        for span in question.spans
        if rules.can_be_replaced(span)
        for candidate in rules.replacements(span)
    ]
    return list({swap.question: swap for swap in swaps}.values())


class _Rules:
    """Whether a span of a question can be replaced, and by which spans of the context."""

    def __init__(
        self, question: Text, context: Text, answers: Sequence[tuple[str, int]], title: str
    ) -> None:
        self._question, self._context = question, context
        spans = [(start, start + len(text)) for text, start in answers]
        self._answered = {s for span in spans for s in context.sentences_at(*span)}
        self._topic = stems_of(title)  # what every sentence of the article may be about
        self._used = content_stems(question.words).union(*(stems_of(text) for text, _ in answers))

    def can_be_replaced(self, span: Span) -> bool:
        sentences = self._context.sentences_with(self._question.words_of(span))
        if span.kind != "name":
            sentences &= self._answered
        found = bool(sentences) and bool(self._answered)
        return found and len(self._rest(span)) >= _LEAST_CONTENT

    def replacements(self, span: Span) -> list[Span]:
        old, rest = self._question.words_of(span), self._rest(span) - self._topic
        excluded = self._used
        if span.kind == "name":
            excluded = excluded | self._topic | _aliases(self._context, old)
        return [
            candidate
            for candidate in self._context.spans
            if candidate.shape == span.shape
            and excluded.isdisjoint(content_stems(new := self._context.words_of(candidate)))
            and (span.kind != "name" or self._context.share_a_role(old, new))
            and self._do_not_answer(self._context.sentences_with(new), rest)
        ]

    def _rest(self, span: Span) -> set[str]:
        words = self._question.words
        return content_stems([*words[: span.start], *words[span.end :]])

    def _do_not_answer(self, sentences: set[int], rest: set[str]) -> bool:
        stems = self._context.sentence_stems
        return self._answered.isdisjoint(sentences) and all(
            rest.isdisjoint(stems[sentence]) for sentence in sentences
        )


def _replaced(question: Text, span: Span, new: str) -> Swap:
    start, end = question.offsets[span.start][0], question.offsets[span.end - 1][1]
    text = question.text
    return Swap(text[:start] + new + text[end:], span.kind, text[start:end], new)


def _aliases(context: Text, old: Sequence[str]) -> set[str]:
    """The stems of all names in the context that share a word or the first letters with a name."""
    words = set(old) - CONNECTORS
    names = [context.words_of(span) for span in context.spans if span.kind == "name"]
    return {
        stem
        for name in names
        if not words.isdisjoint(name) or name[0][:_ALIAS] == old[0][:_ALIAS]
        for stem in content_stems(name)
    }
