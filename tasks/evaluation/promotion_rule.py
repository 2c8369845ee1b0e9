"""The rule that decides whether a challenger is promoted to champion, and its explanation."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from pydantic import Field

from infra.form import Form
from models.arrays import BoolArray, FloatArray, IntArray
from tasks.evaluation.bootstrap import CONFIDENCE, Gain, paired_gain, signed
from tasks.evaluation.evaluate import EvaluationSplit
from tasks.evaluation.floor import floor_f1
from tasks.evaluation.groups import choose_groups
from tasks.evaluation.validation_parts import LEAST_DECIDING_ARTICLES, is_deciding

# Fewest questions of a decision. Slices with fewer are ignored.
SLICE_QUESTIONS = 30


class PromotionRule(Form):
    """The conditions under which a newly trained model is promoted to champion."""

    min_gain: float = Field(
        0.5, ge=0, le=100, description="Promote only if F1 rises by at least this many points."
    )
    slice_drop: float = Field(
        2.0,
        ge=0,
        le=100,
        description="Do not promote if F1 on any slice of the questions drops significantly by "
        "more than this many points.",
    )


@dataclass(frozen=True)
class SliceComparison:
    """The mean F1 (0 to 100) of both models on a slice of the questions, and the gain."""

    name: str
    questions: int
    champion: float
    challenger: float
    gain: Gain
    confidence: float = CONFIDENCE  # of the gain's interval

    @property
    def confidence_percent(self) -> str:
        """The confidence as text, for example "95 %" or "98.75 %"."""
        return f"{100 * self.confidence:.4g} %"


@dataclass(frozen=True)
class Decision:
    """Whether the challenger is promoted, the reason as a sentence, and the numbers behind it."""

    promoted: bool
    reason: str
    parts: list[SliceComparison]  # all questions first, then the slices; empty without a champion
    # The comparison with answers that ignore the question, the better of `floors`, as champion.
    floor: SliceComparison | None = None

    @property
    def overall(self) -> SliceComparison | None:
        """The comparison on all questions that decided: with the champion, else with the floor;
        None if too few could decide."""
        return self.parts[0] if self.parts else self.floor


def decide_promotion(
    questions: EvaluationSplit,
    new: BoolArray,
    chose_epoch: bool,
    challenger: FloatArray,
    champion: FloatArray | None,
    slices: Mapping[str, BoolArray],
    rule: PromotionRule,
    candidates: int = 1,
) -> Decision:
    """Decide on the promotion from the F1 (0 to 1) of each model's answers to all questions, (n,)
    each; `champion` is None if there is none.

    Only questions decide whose context is `new` (n,) to both models. If these questions are
    validation, and `chose_epoch` of one of the models, only its articles that stop no training do.
    Too few questions or, over a champion, too few articles promote nothing. Without a champion,
    all new questions decide if there are too few such articles, because the choice of an epoch
    lifts no model much above the floor.

    The challenger must exceed the better of the `floors` significantly, and the champion as
    `decide` says; for `slices`, `rule` and `candidates`, see there.
    """
    deciding = new & is_deciding(questions) if chose_epoch else new
    articles = len(np.unique(questions.article_of[deciding]))
    if articles < LEAST_DECIDING_ARTICLES:
        if champion is not None:
            return _too_few(articles, LEAST_DECIDING_ARTICLES, "articles")
        deciding = new
    if deciding.sum() < SLICE_QUESTIONS:
        return _too_few(int(deciding.sum()), SLICE_QUESTIONS, "questions")
    texts = questions.article_of[deciding], questions.context_of[deciding]
    f1 = challenger[deciding]
    floor = _compare_floor(
        {name: own[deciding] for name, own in floor_f1(questions).items()}, f1, texts, candidates
    )
    if floor.gain.low <= 0:
        reason = f"it does not exceed the floor, {floor.name}, beyond chance: F1 {_change(floor)}"
        return Decision(False, reason, [], floor)
    if champion is None:
        reason = (
            f"there was no champion before, and beside the floor, {floor.name}, F1 {_change(floor)}"
        )
        return Decision(True, reason, [], floor)
    masks = {name: mask[deciding] for name, mask in slices.items()}
    decision = decide(champion[deciding], f1, *texts, masks, rule, candidates)
    return replace(decision, floor=floor)


def _too_few(count: int, least: int, unit: str) -> Decision:
    """The decision if less than needed can decide."""
    reason = (
        f"only {count} {unit} can decide, and {least} are needed, {least - count} more. Those that "
        "a model was trained on, or that chose its epoch, cannot. Add articles, keep data.seed and "
        "data.validation_share as for the champion, or promote it yourself with `bidaflow promote`"
    )
    return Decision(False, reason, [])


def _compare_floor(
    floors: Mapping[str, FloatArray],
    challenger: FloatArray,
    texts: tuple[IntArray, IntArray],
    candidates: int,
) -> SliceComparison:
    """The comparison of the challenger's F1 with that of the better floor, (n,) each."""
    name = max(floors, key=lambda name: floors[name].mean())
    everything = np.ones(len(challenger), dtype=bool)
    return _compare_slice(
        name, (floors[name], challenger), texts, everything, _confidence(candidates)
    )


def _confidence(candidates: int) -> float:
    """The confidence of an interval of the best of several candidates (Bonferroni)."""
    return 1 - (1 - CONFIDENCE) / candidates


def decide(
    champion: FloatArray,
    challenger: FloatArray,
    article_of: IntArray,
    context_of: IntArray,
    slices: Mapping[str, BoolArray],
    rule: PromotionRule,
    candidates: int = 1,
) -> Decision:
    """Decide on the promotion from the F1 (0 to 1) of each model's answers, (n,) each.

    Both models answered the same questions, about the articles and contexts `article_of` and
    `context_of`, (n,) each. The challenger is promoted if it gains at least `min_gain` points, the
    95 % confidence interval of its gain (paired bootstrap) does not reach below zero, and no slice
    of at least `SLICE_QUESTIONS` questions loses more than `slice_drop` points significantly.
    If it is the best of several `candidates` on these questions, the interval is corrected for
    their number (Bonferroni).
    """
    models, texts = (champion, challenger), (article_of, context_of)
    everything = np.ones(len(champion), dtype=bool)
    overall = _compare_slice("all", models, texts, everything, _confidence(candidates))
    parts = [
        _compare_slice(name, models, texts, mask)
        for name, mask in slices.items()
        if mask.sum() >= SLICE_QUESTIONS
    ]
    worse = [part for part in parts if part.gain.mean < -rule.slice_drop and part.gain.high < 0]
    gain = overall.gain
    promoted = gain.mean >= rule.min_gain and gain.low >= 0 and not worse
    reasons = [
        f"F1 {_change(overall)}",
        *_shortfall(gain, rule),
        *(f"on the slice '{part.name}', it {_change(part)}" for part in worse),
    ]
    return Decision(promoted, "; ".join(reasons), [overall, *parts])


def _shortfall(gain: Gain, rule: PromotionRule) -> list[str]:
    """Why a model that is not worse is not better by enough; empty if it is, or if it is worse."""
    if 0 <= gain.mean < rule.min_gain:
        return [f"a gain of at least {rule.min_gain:g} points is required"]
    if gain.low < 0 <= gain.mean:
        return ["this may be chance, because the interval reaches below 0"]
    return []


def _compare_slice(
    name: str,
    models: tuple[FloatArray, FloatArray],
    texts: tuple[IntArray, IntArray],
    mask: BoolArray,
    confidence: float = CONFIDENCE,
) -> SliceComparison:
    before, after = (100 * f1[mask] for f1 in models)
    group_of = choose_groups(*(text_of[mask] for text_of in texts))
    return SliceComparison(
        name,
        int(mask.sum()),
        champion=float(before.mean()),
        challenger=float(after.mean()),
        gain=paired_gain(before, after, group_of, confidence=confidence),
        confidence=confidence,
    )


def _change(part: SliceComparison) -> str:
    """The change of F1 with the confidence interval of the gain (paired bootstrap)."""
    before, after = f"{part.champion:.1f}", f"{part.challenger:.1f}"
    verb = "rose" if part.gain.mean > 0 else "fell"
    change = f"stayed at {after}" if before == after else f"{verb} from {before} to {after}"
    interval = f"{signed(part.gain.low)} to {signed(part.gain.high)}"
    return f"{change} ({part.confidence_percent} interval {interval})"


def markdown(decision: Decision) -> str:
    """The numbers behind the decision as a Markdown table, a row for each slice; may be empty."""
    table = [
        "| slice | questions | champion F1 | challenger F1 | gain | confidence interval |",
        "|---|---|---|---|---|---|",
        *(
            f"| {part.name} | {part.questions} | {part.champion:.2f} | {part.challenger:.2f} "
            f"| {part.gain.mean:+.2f} | {part.gain.low:+.2f} to {part.gain.high:+.2f} "
            f"({part.confidence_percent}) |"
            for part in decision.parts
        ),
        "",
    ]
    lines = table if decision.parts else []
    if decision.floor:
        lines.append(f"Floor, {decision.floor.name}: F1 {_change(decision.floor)}.\n")
    return "\n".join(lines)
