"""What a set of word vectors covers of a dataset's text, in sentences for people.

`shares` are those of `tasks.text.build_vocabulary.coverage`.
"""

from collections.abc import Mapping

# Below this share of the text, a set probably does not fit it. GloVe covers 99 % of Wikipedia's
# paragraphs in English, and 4 % of Arabic text: digits and punctuation.
LEAST_COVERED = 0.6
# The case is the likely cause if ignoring it covers more than so many times as much.
CASE_GAIN = 1.2
OTHER_VECTORS = (
    "Choose vectors of the text's language, train vectors on your own texts (bidaflow embeddings "
    "train), or choose the variant char-only, which reads only characters."
)


def covered(vectors: str, shares: Mapping[str, float]) -> str:
    """The shares of the text and of its distinct words that a set has vectors for; `vectors` is its
    name."""
    return (
        f"{vectors} has vectors for {100 * shares['tokens_looked_up']:.1f} % of the text and "
        f"{100 * shares['forms_looked_up']:.0f} % of its distinct words."
    )


def misfit(shares: Mapping[str, float], lower_case: bool) -> str | None:
    """Why a set probably covers so little of the text, and what to do; None if it covers enough.

    `lower_case` is the case in which words were looked up.
    """
    share = shares["tokens_looked_up"]
    if share >= LEAST_COVERED:
        return None
    lookup = "in lower case" if lower_case else "as written"
    case = f"The vectors have more of the words in another case, but they are looked up {lookup}."
    if shares["tokens_in_other_case"] > CASE_GAIN * share:
        return f"{case} Set vocabulary.lower_case to {not lower_case}."
    if shares["tokens_in_any_case"] > CASE_GAIN * share:
        return f"{case} Choose vectors of words in lower case."
    return f"The vectors are probably of another language than the text. {OTHER_VECTORS}"


def no_word_known(vectors: str, shares: Mapping[str, float]) -> str | None:
    """Why no model should be trained with a set: it has no word of the text, in any case; None if
    it has some."""
    if shares["tokens_in_any_case"]:
        return None
    return f"{vectors} has no vector for any word of the text. {OTHER_VECTORS}"
