"""The conventions by which files count offsets, and the vote on the one of a file.

Offsets are code points. Tools and people also count other units, and each does so systematically:
the answers of a file that do not match their offset decide which convention it has.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import islice
from operator import itemgetter

from tasks.data.answer_errors import matches_context
from tasks.data.schema import Answer
from tasks.text.tokenizer import tokenize

# A convention is applied if it explains this share of the answers, and at least so many.
SHARE, LEAST = 0.9, 5
MOST_PLACES = 50  # of one text in its context


def _from_utf16(context: str, offset: int) -> int:
    return len(context.encode("utf-16-le")[: 2 * offset].decode("utf-16-le", "ignore"))


def _from_utf8(context: str, offset: int) -> int:
    return len(context.encode()[:offset].decode(errors="ignore"))


def _from_line_ends_as_one(context: str, offset: int) -> int:
    ends = re.finditer("\r\n", context)
    return offset + sum(end.start() - number < offset for number, end in enumerate(ends))


def _from_line_ends_as_two(context: str, offset: int) -> int:
    return len(context.replace("\n", "\r\n")[:offset].replace("\r\n", "\n"))


def _without_leading_space(context: str, offset: int) -> int:
    return offset + len(context) - len(context.lstrip())


def _shifted(shift: int, context: str, offset: int) -> int:
    return offset + shift


@dataclass(frozen=True)
class Convention:
    """How a file counts offsets; `shifts` are those of the contexts with a constant one."""

    name: str
    code_points: Callable[[str, int], int]
    inclusive_end: bool = False
    shifts: Mapping[bytes, int] = field(default_factory=dict)

    def start(self, context: str, offset: int) -> int:
        """The code points before an offset."""
        return self.code_points(context, offset) + self.shifts.get(_digest(context), 0)

    def span(self, context: str, answer: Answer) -> tuple[int, int]:
        """The code points before the start and before the end of a span without text."""
        end = (answer.end or 0) + self.inclusive_end
        return self.start(context, answer.answer_start), self.start(context, end)


def _digest(context: str) -> bytes:
    return blake2b(context.encode(errors="surrogatepass"), digest_size=12).digest()


CONVENTIONS = (
    Convention("UTF-16 code units", _from_utf16),
    Convention("UTF-8 bytes", _from_utf8),
    Convention("code points with each \\r\\n as one", _from_line_ends_as_one),
    Convention("code points with each line end as two", _from_line_ends_as_two),
    Convention("code points after the white space that begins a context", _without_leading_space),
)
INCLUSIVE = Convention(
    "code points with an inclusive end", partial(_shifted, 0), inclusive_end=True
)


def placed(answer: Answer, context: str, convention: Convention | None) -> Answer:
    """The answer with its text and with its start in code points.

    An answer that matches the context as it is stays; others are moved if the convention leads to
    their text, or if the context does not have it, so that a repair begins at the right place.
    """
    if answer.end is not None and not answer.text:
        start, end = answer.answer_start, answer.end
        if convention and not _at_tokens(context, start, end):
            moved = convention.span(context, answer)
            start, end = moved if _at_tokens(context, *moved) else (start, end)
        return Answer(text=context[max(start, 0) : max(end, 0)], answer_start=start)
    if convention is None or answer.answer_start < 0 or matches_context(answer, context):
        return answer
    start = max(convention.start(context, answer.answer_start), -1)
    shifted = Answer(text=answer.text, answer_start=start)
    is_better = matches_context(shifted, context) or answer.text not in context
    return shifted if is_better else answer


def _at_tokens(context: str, start: int, end: int) -> bool:
    """Whether a span begins where a token begins, and ends where one ends."""
    starts, ends = _token_borders(context)
    return start in starts and end in ends and start < end


@lru_cache(maxsize=8)  # the questions about a context follow each other
def _token_borders(context: str) -> tuple[set[int], set[int]]:
    tokens = tokenize(context)
    return {start for start, _ in tokens}, {end for _, end in tokens}


def _is_misplaced(answer: Answer, context: str) -> bool:
    """Whether the context has the answer's text, but not at its offset, of which there is one."""
    has_text = bool(answer.text.strip()) and answer.text in context
    return has_text and answer.answer_start >= 0 and not matches_context(answer, context)


class OffsetVote:
    """Counts, of the answers that do not match their offset, how many each convention explains."""

    def __init__(self) -> None:
        self._answers = 0
        self._explained: Counter[str | int] = Counter()  # by the convention's name, or the shift
        self._shifts: dict[bytes, Counter[int]] = defaultdict(Counter)  # by context

    def add(self, context: str, answers: Iterable[Answer]) -> None:
        """Count the answers to a question about a context."""
        for answer in {(a.text, a.answer_start, a.end): a for a in answers}.values():
            if answer.end is not None and not answer.text:
                self._add_span(context, answer)
            elif _is_misplaced(answer, context):
                self._add_text(context, answer)

    def _add_span(self, context: str, answer: Answer) -> None:
        outside = answer.answer_start >= len(context.encode(errors="replace"))  # by any convention
        if outside or _at_tokens(context, answer.answer_start, answer.end or 0):
            return
        self._answers += 1
        for convention in (*CONVENTIONS, INCLUSIVE):
            self._explained[convention.name] += _at_tokens(
                context, *convention.span(context, answer)
            )

    def _add_text(self, context: str, answer: Answer) -> None:
        self._answers += 1
        for convention in CONVENTIONS:
            start = convention.start(context, answer.answer_start)
            self._explained[convention.name] += context.startswith(answer.text, start)
        places = islice(re.finditer(f"(?={re.escape(answer.text)})", context), MOST_PLACES)
        shifts = [place.start() - answer.answer_start for place in places]
        self._shifts[_digest(context)].update(shifts)
        self._explained.update(shifts)

    def winner(self) -> Convention | None:
        """The convention that explains enough of the answers; None if none does.

        Of equal ones, the first counts; a shift of its own for each context is the last resort,
        and needs two answers that agree.
        """
        agreed = {}
        for context, shifts in self._shifts.items():
            (shift, count), *_ = shifts.most_common(1)
            if count > 1:
                agreed[context] = shift
        by_context = sum(self._shifts[context][shift] for context, shift in agreed.items())
        # Of equal counts, the first one: named conventions are counted before shifts.
        best, count = max(self._explained.items(), key=itemgetter(1), default=(0, 0))
        if max(count, by_context) < max(LEAST, SHARE * self._answers):
            return None
        if count < by_context:
            name = "code points, shifted in some contexts"
            return Convention(name, partial(_shifted, 0), shifts=agreed)
        if isinstance(best, int):
            return Convention(f"code points, shifted by {-best}", partial(_shifted, best))
        return next(c for c in (*CONVENTIONS, INCLUSIVE) if c.name == best)
