"""The scripts of texts, as far as scores and the tokenizer depend on them."""

import re

# Character classes for regular expressions. These scripts have no spaces between words; the second
# class also has Thai, Lao, Burmese and Khmer.
HAN_AND_KANA = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U0001b000-\U0001b2ff\U00020000-\U0003ffff"
)
UNSPACED = f"{HAN_AND_KANA}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"

_LETTER = re.compile(r"[^\W\d_]")
_NOT_LATIN = re.compile(r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]")


def is_mostly_latin(text: str) -> bool:
    """Whether at least half of a text's letters are Latin."""
    return text.isascii() or 2 * len(_NOT_LATIN.findall(text)) <= len(_LETTER.findall(text))
