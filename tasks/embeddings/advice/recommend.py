"""Which way of adding a domain's words to a set of vectors to try first, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Way = Literal[
    "keep the set as it is",
    "fill a-la-carte",
    "fill by rotation",
    "concatenate",
    "concatenate with a gate",
    "Mittens",
]
Verdict = Literal["try first", "reference", "then", "not now"]
VERDICTS: tuple[Verdict, ...] = ("try first", "reference", "then", "not now")

# An assumption: questions about COVID-19 papers with words outside GloVe score 6 F1 below the
# others (benchmarks/results/domain_vectors, GloVe), so vectors can hardly bring them more.
LARGEST_GAIN = 6.0
# A way that puts fewer hidden terms near their own vectors mostly adds noise.
LEAST_PLACED = 0.1
ROUGH = 0.3  # below this share, the advice warns
# A second vector for known words helps where most of the words have one.
LEAST_COVERAGE = 0.8
# GloVe needs millions of words for co-occurrence counts that say more than the given vectors.
MITTENS_WORDS = 1_000_000
NEEDS_SET = "Needs a second set: train one by `bidaflow embeddings train`, and add it to --vectors."


@dataclass(frozen=True)
class WordSource:
    """A corpus or a second set of vectors, and what it adds to the main set for a dataset."""

    name: str
    kind: Literal["corpus", "set"]
    new_words: int  # words of the dataset that the main set lacks
    share_of_missing: float  # share (0 to 1) of the missing occurrences that it covers
    reached: int  # held-out questions with a new word in them, in their answers or near these
    coverage: float  # share (0 to 1) of all occurrences that it covers by itself
    hidden_terms: int
    placed: float | None  # share (0 to 1) of the hidden terms; None: too few to say
    tokens: int = 0  # of a corpus
    obstacle: str | None = None  # why it can't place any word


@dataclass(frozen=True)
class Advice:
    """A way, whether to try it, and why; `source` is the name of the corpus or set that it uses."""

    way: Way
    verdict: Verdict
    reason: str
    source: str | None = None


def recommend(
    sources: Sequence[WordSource], questions: int, has_subwords: bool = False
) -> list[Advice]:
    """All ways, the most promising first; `has_subwords` says whether the main set has n-grams, and
    `questions` is the number of those that are held out.

    Filling is promising if it reaches enough questions for a gain of 1 F1, and places hidden terms
    of the dataset near their own vectors. Promising ways are in the order of the share of questions
    reached times the share of terms placed. Ways that change what models know of known words come
    next: no measure without a training says what that is worth.
    """
    merits = {source: _merit(source, questions) for source in sources}
    promising = sorted((s for s in sources if merits[s] > 0), key=lambda s: -merits[s])
    fills = [Advice(_fill(s), "then", _fill_reason(s, questions), s.name) for s in promising]
    if fills:
        fills[0] = replace(fills[0], verdict="try first")
    keep = Advice(
        "keep the set as it is",
        "reference" if fills else "try first",
        "Train it, too: every gain is measured against it."
        if fills
        else "Nothing here can be expected to gain 1 F1 by the words that it adds.",
    )
    others = [a for source in sources for a in _ways_for_known_words(source, has_subwords)]
    rest = [
        Advice(_fill(s), "not now", _fill_reason(s, questions), s.name)
        for s in sources
        if s not in promising
    ]
    if all(source.kind == "corpus" for source in sources):
        rest += [Advice(way, "not now", NEEDS_SET) for way in ("fill by rotation", "concatenate")]
    return sorted([*fills, keep, *others, *rest], key=lambda advice: VERDICTS.index(advice.verdict))


def needed_gain(source: WordSource, questions: int) -> float:
    """F1 that the reached questions have to gain on average for 1 F1 over all held-out ones."""
    return questions / source.reached if source.reached else float("inf")


def _fill(source: WordSource) -> Way:
    return "fill a-la-carte" if source.kind == "corpus" else "fill by rotation"


def _merit(source: WordSource, questions: int) -> float:
    """The share of questions reached times that of terms placed; 0 if either is too small."""
    placed = source.placed or 0.0
    if needed_gain(source, questions) > LARGEST_GAIN or placed < LEAST_PLACED:
        return 0.0
    return source.reached / questions * placed


def _fill_reason(source: WordSource, questions: int) -> str:
    if not source.new_words:
        return "It has none of the missing words."
    if not source.reached:
        return "The missing words that it has are in no question, nor near an answer."
    gain = needed_gain(source, questions)
    reach = (
        f"It reaches {source.reached:,} of {questions:,} held-out questions. For 1 F1 over all, "
        f"these have to gain {gain:.1f} on average"
    )
    if gain > LARGEST_GAIN:
        return f"{reach}; more than {LARGEST_GAIN:.0f} is not to be expected."
    if source.obstacle is not None:
        return f"{reach}. {source.obstacle}"
    if source.placed is None:
        return (
            f"{reach}. It has only {source.hidden_terms} known terms, too few to say how well it "
            "would place missing ones."
        )
    placed = f"{source.placed:.0%} of {source.hidden_terms} hidden terms were placed well"
    if source.placed < LEAST_PLACED:
        return f"{reach}, but only {placed}: the new vectors would be mostly noise."
    rough = ", so most new vectors will be rough" if source.placed < ROUGH else ""
    return f"{reach}; {placed}{rough}."


def _ways_for_known_words(source: WordSource, has_subwords: bool) -> list[Advice]:
    """The ways that also change the vectors of known words."""
    if source.kind == "corpus":
        return [_mittens(source, has_subwords)]
    name = source.name
    if source.coverage < LEAST_COVERAGE:
        reason = (
            f"It covers only {source.coverage:.0%} of the text, so too many words would have no "
            "second vector."
        )
        return [Advice("concatenate", "not now", reason, name)]
    return [
        Advice(
            "concatenate",
            "then",
            "Adds what it knows of known words, and loses nothing by a map. The input grows by its "
            "dimension.",
            name,
        ),
        Advice("concatenate with a gate", "then", "If concatenation gains: weighs the sets.", name),
    ]


def _mittens(source: WordSource, has_subwords: bool) -> Advice:
    if has_subwords:
        reason = "It would discard the n-grams of the set."
        return Advice("Mittens", "not now", reason, source.name)
    enough = source.tokens >= MITTENS_WORDS
    reason = (
        f"Moves known words to their sense in these {source.tokens:,} words; takes a training of "
        "GloVe."
        if enough
        else f"It has {source.tokens:,} words; counts of co-occurrences need at least "
        f"{MITTENS_WORDS:,}."
    )
    return Advice("Mittens", "then" if enough else "not now", reason, source.name)
