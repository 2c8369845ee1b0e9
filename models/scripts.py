"""The scripts of texts, as far as scores and the tokenizer depend on them."""

import re

# A character class for regular expressions: the scripts that have no spaces between words.
UNSPACED = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\U00020000-\U0003ffff"  # Han
    "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b2ff"  # kana
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\ua000-\ua4cf"  # Yi
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese
    "\u1780-\u17ff\u19e0-\u19ff"  # Khmer
)

_LETTER = re.compile(r"[^\W\d_]")
_NOT_LATIN = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")


def is_mostly_latin(text: str) -> bool:
    """Whether at least half of a text's letters are Latin."""
    others = 0 if text.isascii() else len(_NOT_LATIN.findall(text))
    return not others or 2 * others <= len(_LETTER.findall(text))
