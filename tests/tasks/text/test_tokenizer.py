"""The tokeniser covers every text, and splits it as word vectors and answers require."""

from itertools import pairwise

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.text.tokenizer import tokenize

ANY_TEXT = st.text(st.characters(exclude_categories=[]))  # including lone surrogates
TANGLED_TEXT = st.lists(
    st.sampled_from(
        [*"aZé東か7.,'’&-–_ \t\n\u00a0\u2003$", "n't", "'s", "U.S.", "\u0301", "👩‍👩‍👧", "🇬🇧", "नी"]
    )
).map("".join)
CLUSTERS = st.lists(
    st.sampled_from(
        [
            *("a", "7", ".", "東", "&", "'", "n't", "U.S.", "1,0", "\u200d", "\u0301", "각", "नी"),
            *("👩‍👩‍👧", "👍🏽", "👩🏽‍🚀", "🇬🇧", "1️⃣", "❤️", "葛\U000e0100", "𞤀𞥄"),
            *("🏴\U000e0067\U000e0062\U000e007f", "น้ำ", "ກຳ", "ខ្មែរ", "မြန်မာ", "ﾊﾟ", "ꀀ", "ㄅ"),
        ]
    )
).map("".join)


def words(text: str) -> list[str]:
    return [text[start:end] for start, end in tokenize(text)]


@given(ANY_TEXT | TANGLED_TEXT)
@example("")
@example("\ud800\udc00 \udfff")
def test_tokens_cover_each_character_exactly_once(text: str) -> None:
    spans = tokenize(text)
    covered = [position for start, end in spans for position in range(start, end)]
    assert covered == [i for i, character in enumerate(text) if not character.isspace()]
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


@given(CLUSTERS)
def test_no_grapheme_is_split(text: str) -> None:
    borders = {0, *(match.end() for match in regex.finditer(r"\X", text))}
    assert {offset for token in tokenize(text) for offset in token} <= borders


@given(TANGLED_TEXT, TANGLED_TEXT)
def test_lines_are_tokenized_independently(left: str, right: str) -> None:
    assert words(left + "\n" + right) == words(left) + words(right)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the 42nd game", "the|42nd|game"),
        ("Shaquille O'Neil's", "Shaquille|O'Neil|'s"),
        ("the U.S. Army, in the U.S., e.g. U.S.A", "the|U.S.|Army|,|in|the|U.S.|,|e.g.|U.S.A"),
        ("J.K.Rowling", "J.K.|Rowling"),
        ("vitamin C.", "vitamin|C|."),
        ("don't can’t DIDN'T", "do|n't|ca|n’t|DID|N'T"),
        ("don'ts", "don'ts"),
        ("I'll they've she’d", "I|'ll|they|'ve|she|’d"),
        ("the 1990's students' 's'", "the|1990|'s|students|'|'|s|'"),
        ("1,000.5 and 1, 2.", "1,000.5|and|1|,|2|."),
        ("24–10", "24|–|10"),
        ("gold-themed", "gold|-|themed"),
        ("$5 or 5%", "$|5|or|5|%"),
        ("AT&T and R&B & more", "AT&T|and|R&B|&|more"),
        ("so... well…", "so|...|well|…"),
        ("東京タワー is", "東|京|タ|ワ|ー|is"),
        ("한국 дом नमस्ते القِطّ", "한국|дом|नमस्ते|القِطّ"),
        ("ใช้น้ำiPhoneที่", "ใ|ช้|น้ำ|iPhone|ที่"),
        ("ก.ค. ปีที่1,000.5", "ก|.|ค|.|ปี|ที่|1,000.5"),
        ("ຂໍ້ຄຳ ဗမာစာ ខ្មែរ", "ຂໍ້|ຄຳ|ဗ|မာ|စာ|ខ្មែ|រ"),
        ("ﾃﾞﾊﾟｰﾄ ꀀꀁ ㄅㄆ", "ﾃﾞ|ﾊﾟ|ｰ|ﾄ|ꀀ|ꀁ|ㄅ|ㄆ"),
        ("cafe\u0301s", "cafe\u0301s"),
        ("I ❤️ it 👍🏽!", "I|❤️|it|👍🏽|!"),
        ("https://a.example/b?c=1", "https|:|/|/|a|.|example|/|b|?|c|=|1"),
        ("\tone\u00a0two\u2003three\n", "one|two|three"),
        ("snake_case", "snake|_|case"),
        ("", ""),
    ],
)
def test_splits_example_texts(text: str, expected: str) -> None:
    assert "|".join(words(text)) == expected


@pytest.mark.parametrize("unit", ["a", "a'", "n't", "a.", "1,", "A&", ".", "a\u0301", "'", "a-"])
@pytest.mark.timeout(60)
def test_long_runs_take_linear_time(unit: str) -> None:
    text = unit * 100_000
    assert sum(end - start for start, end in tokenize(text)) == len(text)
