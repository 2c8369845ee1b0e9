"""Ordinary and unusual questions and contexts, and checks of the answers to them."""

import math

from tasks.inference.predictor import AnswerRow
from tasks.text.tokenizer import tokenize
from tests.factories.logged_models import CONTEXT

STRANGE = {
    "unseen words": ("Quo vadis?", "Zyx wvu tsr, qpo nml."),
    "unseen characters": ("Ŵhëŕê?", "Ťĥę мельница ștānđş."),
    "emoji": ("Where is 🏠?", "The 👨‍👩‍👧 lives in the 🏠 by the 🌊."),
    "Chinese": ("磨坊在哪里？", "磨坊在山上。客栈在河边。"),
    "right to left": ("איפה הטחנה?", "הטחנה עומדת על הגבעה. المطحنة على التل."),
    "combining marks": ("où?", "L'auberge est pre\u0300s de la rivie\u0300re."),
    "beyond the basic plane": ("𝔚𝔥𝔢𝔯𝔢?", "𝔗𝔥𝔢 mill 𝔰𝔱𝔞𝔫𝔡𝔰 on the hill."),
    "one token": ("Where?", "hill"),
    "one character": ("?", "."),
    "a word of 300 characters": ("Where?", f"See {'https://' + 'a' * 292} for it."),
    "white space": ("\n Where \t is it?", "\u00a0The\r\n\tmill  \u2003stands."),
    "the vocabulary's own names": ("<padding>", "<unknown> <padding> <unknown>"),
    "a null byte": ("Where\0?", "The\0mill."),
}
COMMON = [("Where does the mill stand?", CONTEXT), ("Where is the inn?", CONTEXT)]


# The last digits of float32 sums depend on the batch shape, and the large weights of these models
# amplify the differences from layer to layer. In float64 the answers agree to fifteen digits.
RELATIVE, ABSOLUTE = 5e-4, 1e-5


def same_answers(left: AnswerRow, right: AnswerRow) -> bool:
    spans = [(row["answer"], row["start"], row["end"]) for row in (left, right)]
    return spans[0] == spans[1] and all(
        math.isclose(left[name], right[name], rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        for name in ("probability", "no_answer_probability")
    )


def is_token_span(row: AnswerRow, context: str, limit: int) -> bool:
    """Whether the answer is a span of at most `limit` whole tokens of the context."""
    inside = [s for s in tokenize(context) if row["start"] <= s[0] and s[1] <= row["end"]]
    return (
        0 < len(inside) <= limit
        and (inside[0][0], inside[-1][1]) == (row["start"], row["end"])
        and row["answer"] == context[row["start"] : row["end"]]
    )


LONG = ("Where?", " ".join(f"The mill{i} stands on hill {i * i}." for i in range(80)))
