"""Makes a split of ingested files: some of their articles, some as often as their weight says."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tasks.errors import UserError
from tasks.held_out import Part, Shares, divide
from tasks.overlap import fingerprints, refuse_overlap, refuse_shared_ids
from tasks.portions import Contexts, Portion
from tasks.split_writer import SplitWriter

Overlap = Literal["refuse", "leave out"]


@dataclass(frozen=True)
class Apart:
    """Splits whose contexts may not stand in this one."""

    scored: Path | None = None  # given by the user, so an overlap may be a mistake
    overlap: Overlap = "refuse"
    held_out: tuple[Path, ...] = ()  # drawn from the same files: repeated contexts are left out


NOTHING_HELD_OUT = Shares()
FROM_NOTHING = Apart()


def write_split(
    out: Path,
    portions: Sequence[Portion],
    part: Part = "all",
    shares: Shares = NOTHING_HELD_OUT,
    mixed: Sequence[Portion] = (),
    apart: Apart = FROM_NOTHING,
    negatives: float = 0.0,
) -> dict[str, Any]:
    """Write one part of the portions' articles, and all that is mixed in, as an ingested split.

    Contexts are numbered anew. A question of weight w stands ⌊w⌋ times, and once more with
    probability w − ⌊w⌋, drawn by the seed and its id; copies have ids that end in ×2, ×3, …
    Of the answerable questions the share `negatives` is asked once more, under ids that end in ≠,
    about another paragraph of the same article that holds none of their answers.

    Raises:
        UserError: two files share a question id; a context also stands in the set to score on; no
            question is left; or negatives are asked for, and none can be made to train on.
    """
    every = [*portions, *mixed]
    refuse_shared_ids(every)
    contexts = [Contexts(portion) for portion in every]
    keep_part(contexts[: len(portions)], part, shares)
    left_out = _keep_apart(contexts, apart)
    with SplitWriter(out) as writer:
        for portion in contexts:
            writer.add(portion, shares.seed, negatives)
    if not writer.counts["questions"]:
        raise UserError(f'No question is left for the part "{part}": give more articles.')
    if negatives and part != "validation" and not writer.counts["negatives"]:
        raise UserError(
            f"data.negatives is {negatives:g}, but no article to train on holds another paragraph "
            "that a question with an answer could be asked about: leave it at 0, or give articles "
            "of several paragraphs."
        )
    files = [{"name": portion.name, "weight": portion.weight} for portion in every]
    added = writer.counts["negatives"]
    return {**writer.facts(), "negatives": added, "contexts_left_out": left_out, "files": files}


def keep_part(contexts: Sequence[Contexts], part: Part, shares: Shares) -> None:
    """Keep the contexts of one part's articles."""
    if part == "all":
        return
    articles = [portion.articles for portion in contexts]
    if shares.dev and sum(map(len, articles)) < 2:
        raise UserError(
            "The data hold one article only, which can't be divided into train and dev: give "
            "files for both, or more articles."
        )
    parts = divide(articles, shares)
    for portion in contexts:
        own, parts = parts[: len(portion.articles)], parts[len(portion.articles) :]
        portion.keep_articles([given == part for given in own])


def _keep_apart(contexts: Sequence[Contexts], apart: Apart) -> int:
    known = fingerprints(apart.held_out)
    if apart.scored is not None:
        scored = fingerprints([apart.scored])
        if apart.overlap == "refuse":
            refuse_overlap(contexts, scored)
        known |= scored
    return sum(portion.leave_out(known) for portion in contexts)
