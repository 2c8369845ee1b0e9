"""The rule that decides whether a challenger is promoted to champion, and its explanation."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel, Field

from models.arrays import BoolArray, FloatArray
from tasks.evaluation.bootstrap import Gain, paired_gain


class PromotionRule(BaseModel, frozen=True, extra="forbid"):
    """The conditions under which a newly trained model is promoted to champion."""

    min_gain: float = Field(
        0.5, ge=0, le=100, description="Least gain in F1 points over the champion."
    )
    slice_drop: float = Field(
        2.0,
        ge=0,
        le=100,
        description="A slice of the questions may lose as many F1 points; more, if it is "
        "significant, forbids the promotion.",
    )
    slice_questions: int = Field(
        30, ge=1, description="Slices of fewer questions than this are not looked at."
    )


@dataclass(frozen=True)
class Part:
    """The mean F1 (0 to 100) of both models on a slice of the questions, and the gain."""

    name: str
    questions: int
    champion: float
    challenger: float
    gain: Gain


@dataclass(frozen=True)
class Decision:
    """Whether the challenger is promoted, the reason as a sentence, and the numbers behind it."""

    promoted: bool
    reason: str
    parts: list[Part]  # all questions first, then the slices; empty without a champion

    def to_dict(self) -> dict[str, Any]:
        """The decision as nested plain values, for JSON."""
        return {
            "promoted": self.promoted,
            "reason": self.reason,
            "parts": [asdict(part) for part in self.parts],
        }


FIRST = Decision(True, "There was no champion before", [])


def decide(
    champion: FloatArray,
    challenger: FloatArray,
    slices: Mapping[str, BoolArray],
    rule: PromotionRule,
) -> Decision:
    """Decide on the promotion from the F1 (0 to 1) of each model's answers, (n,) each.

    Both models answered the same questions. The challenger is promoted if it gains at least
    `min_gain` points, the 95 % confidence interval of its gain (paired bootstrap) does not reach
    below zero, and no slice of at least `slice_questions` questions loses more than `slice_drop`
    points significantly.
    """
    whole = _part("all", champion, challenger, np.ones(len(champion), dtype=bool))
    parts = [
        _part(name, champion, challenger, mask)
        for name, mask in slices.items()
        if mask.sum() >= rule.slice_questions
    ]
    against = _objections(whole, parts, rule)
    verdict = "; ".join(against) or "better, and no slice is worse"
    gain = f"F1 {whole.champion:.2f} → {whole.challenger:.2f} ({_told(whole.gain)})"
    return Decision(not against, f"{gain}: {verdict}", [whole, *parts])


def _objections(whole: Part, parts: Sequence[Part], rule: PromotionRule) -> list[str]:
    against = []
    if whole.gain.mean < rule.min_gain:
        against.append(f"the gain is below {rule.min_gain:g}")
    if whole.gain.low < 0:
        against.append("it may be worse, by the 95 % interval")
    for part in parts:
        if part.gain.mean < -rule.slice_drop and part.gain.high < 0:
            against.append(f"{part.name} loses {-part.gain.mean:.2f} ({_told(part.gain)})")
    return against


def _part(name: str, champion: FloatArray, challenger: FloatArray, mask: BoolArray) -> Part:
    before, after = 100 * champion[mask], 100 * challenger[mask]
    gain = paired_gain(before, after)
    return Part(name, int(mask.sum()), float(before.mean()), float(after.mean()), gain)


def _told(gain: Gain) -> str:
    return f"{gain.mean:+.2f}, 95 % {gain.low:+.2f} to {gain.high:+.2f}"


def markdown(decision: Decision) -> str:
    """The decision as Markdown: the reason, and a table with a row for each slice."""
    rows = [
        f"| {part.name} | {part.questions} | {part.champion:.2f} | {part.challenger:.2f} "
        f"| {part.gain.mean:+.2f} | {part.gain.low:+.2f} to {part.gain.high:+.2f} |"
        for part in decision.parts
    ]
    verdict = "Promoted" if decision.promoted else "Not promoted"
    lines = [f"**{verdict}.** {decision.reason}.", ""]
    if rows:
        head = "| questions | number | champion F1 | challenger F1 | gain | 95 % interval |"
        lines += [head, "|---|---|---|---|---|---|", *rows, ""]
    return "\n".join(lines)
