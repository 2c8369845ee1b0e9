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
# Vectors need millions of words to say more about known words than the given ones.
LEAST_TOKENS = 1_000_000
NEEDS_SET = "Needs a second set: train one by `bidaflow embeddings train`, and add it to --vectors."
CONCATENATION = (
    "Adds what it knows of known words, too. It gained most in medicine, and next to nothing in "
    "biology (docs/case-medicine.md). The input grows by its dimension."
)


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

    Concatenation comes first, because it gained most in medicine (docs/case-medicine.md): with sets
    that cover most of the text, and then with sets yet to be trained on large enough corpora.
    Filling is promising if it reaches enough questions for a gain of 1 F1, and places hidden terms
    of the dataset near their own vectors. Promising fills are in the order of the share of
    questions reached times the share of terms placed.
    """
    merits = {source: _merit(source, questions) for source in sources}
    filling = sorted((s for s in sources if merits[s] > 0), key=lambda s: -merits[s])
    joining = sorted((s for s in sources if _objection(s) is None), key=_order_of_joining)
    promising = [Advice("concatenate", "then", CONCATENATION, s.name) for s in joining]
    promising += [Advice(_fill(s), "then", _fill_reason(s, questions), s.name) for s in filling]
    if promising:
        promising[0] = replace(promising[0], verdict="try first")
    keep = Advice(
        "keep the set as it is",
        "reference" if promising else "try first",
        "Train it, too: every gain is measured against it."
        if promising
        else "Nothing here can be expected to gain 1 F1 by the words that it adds.",
    )
    gate = Advice("concatenate with a gate", "then", "If concatenation gains: weighs the sets.")
    gates = [replace(gate, source=source.name) for source in joining]
    mittens = [_mittens(s, has_subwords) for s in sources if s.kind == "corpus"]
    rest = [
        Advice("concatenate", "not now", objection, s.name)
        for s in sources
        if (objection := _objection(s)) is not None
    ]
    rest += [
        Advice(_fill(s), "not now", _fill_reason(s, questions), s.name)
        for s in sources
        if s not in filling
    ]
    if all(source.kind == "corpus" for source in sources):
        rest.append(Advice("fill by rotation", "not now", NEEDS_SET))
    ways = [*promising, keep, *gates, *mittens, *rest]
    return sorted(ways, key=lambda advice: VERDICTS.index(advice.verdict))


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


def _order_of_joining(source: WordSource) -> tuple[bool, float]:
    """Sets that exist come first, by coverage; then corpora, by size."""
    is_corpus = source.kind == "corpus"
    return is_corpus, -(source.tokens if is_corpus else source.coverage)


def _objection(source: WordSource) -> str | None:
    """Why it is not worth concatenating; None if it is."""
    if source.kind == "corpus" and source.tokens < LEAST_TOKENS:
        return (
            f"It has {source.tokens:,} words; a set that is worth adding needs at least "
            f"{LEAST_TOKENS:,}."
        )
    if source.coverage < LEAST_COVERAGE:
        return (
            f"It covers only {source.coverage:.0%} of the text, so too many words would have no "
            "second vector."
        )
    return None


def _mittens(source: WordSource, has_subwords: bool) -> Advice:
    if has_subwords:
        reason = "It would discard the n-grams of the set."
        return Advice("Mittens", "not now", reason, source.name)
    enough = source.tokens >= LEAST_TOKENS
    reason = (
        f"Moves known words to their sense in these {source.tokens:,} words; takes a training of "
        "GloVe."
        if enough
        else f"It has {source.tokens:,} words; counts of co-occurrences need at least "
        f"{LEAST_TOKENS:,}."
    )
    return Advice("Mittens", "then" if enough else "not now", reason, source.name)
