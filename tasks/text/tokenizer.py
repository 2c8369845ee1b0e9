"""Splits text into words, numbers and punctuation marks, as character offsets.

Chosen by measurement (benchmarks/results/tokenizers.md): 99.7 % of the answers begin and end at its
token boundaries, 99.2 % of its tokens have a GloVe vector, and it is more than twice as fast as the
libraries with comparable results. Splitting at every punctuation mark gains less than 0.1 point on
both measures, but breaks up tokens like "U.S." and "10,000", most of which have vectors of their
own.
"""

import re
import unicodedata

from models.scripts import UNSPACED

# Accents, vowel signs, variation selectors and joiners belong to the preceding character; so do the
# vowels AM of Thai and Lao, and the voicing marks of half-width katakana, which are letters.
_MARKS = "\u00ad\u200c\u200d\u0e33\u0eb3\uff9e\uff9f" + "".join(
    character
    for character in map(chr, range(0x300, 0x10000))
    if unicodedata.category(character).startswith("M")
)
# So do skin tones, tags and the marks of rare scripts, but few texts have characters above U+FFFF.
_ABOVE = "\U00010000-\U0010ffff"
_MARKS_ABOVE = "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef" + "".join(
    character
    for character in map(chr, range(0x10000, 0x20000))
    if unicodedata.category(character).startswith("M")
)
# One mark. Of other characters, nearly all fail the first two of its three checks.
_MARK = rf"(?:[{_MARKS}]|(?=[{_ABOVE}])[{_MARKS_ABOVE}])"
_EMOJI = "[\u2190-\u2bff\U0001f000-\U0001f1e5\U0001f200-\U0001faff]"
# Burmese and Khmer put a consonant below the preceding one by a sign between them.
_STACKED, _BELOW = "[\u1000-\u109f\u1780-\u17ff]", "[\u1039\u17d2]"
# Where scripts have no spaces between words, each grapheme is a token.
_LETTER = rf"[^\W_{UNSPACED}]"
_INITIAL = rf"[^\W\d_{UNSPACED}]"
_WORD = rf"{_LETTER}(?:{_LETTER}|{_MARK})*+"
_ENDING = r"['’](?i:s|m|d|ll|re|ve)(?!\w)"
_NOT = r"(?i:n['’]t)(?!\w)"

_TOKEN = re.compile(
    rf"""
      {_LETTER}++(?![{_MARKS}{_ABOVE}'’.,&])   # most words, without any backtracking
    | (?: \d++(?:[.,]\d++)++                   # 1,000.5
        | {_INITIAL}(?:\.{_INITIAL})+(?!\w)\.?   # U.S.  e.g.
        | [A-Z]++(?:&[A-Z]++)++                # AT&T
        | {_NOT} | {_LETTER}+?(?={_NOT})       # do|n't
        | (?<=\w){_ENDING}                     # Levi|'s
        | {_WORD}(?:(?!{_ENDING})['’]{_WORD})*+  # O'Neil
        | \.\.\. | --
        | [\U0001f1e6-\U0001f1ff]{{2}}          # a flag
        | {_EMOJI}(?:{_MARK}*+(?<=\u200d){_EMOJI})*+
        | {_STACKED}(?:{_MARK}*+(?<={_BELOW}){_STACKED})*+
        | \S                                   # anything else, one at a time
      ){_MARK}*+
    """,
    re.VERBOSE,
)


def tokenize(text: str) -> list[tuple[int, int]]:
    """The tokens of `text` as [start, end) offsets in code points, in order.

    Tokens never overlap, contain no white space, and split no grapheme, such as a joined emoji.
    Every other character is in exactly one.
    """
    return [match.span() for match in _TOKEN.finditer(text)]
