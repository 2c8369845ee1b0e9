"""Promotion: compare the best trained variant with the champion on the same questions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from prefect.runtime import flow_run
from pydantic import TypeAdapter

from flows.common.splits import Splits
from infra.artifacts.digests import digest_of
from infra.artifacts.locks import exclusive_lock
from infra.artifacts.manifest import content_digest
from infra.artifacts.stage import Output
from infra.settings import settings
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.promotion_rule import FIRST, Decision, PromotionRule, decide, markdown
from tasks.evaluation.slices import guarded_slices
from tasks.inference.score_model import f1_of
from tasks.stages import scoring
from tasks.text.vocabulary import Lexicon
from tasks.tracking import registry, runs
from tasks.tracking.registry import Registered

REASON, KEY, FLOW_RUN = "promotion", "promotion.key", "promotion.flow_run_id"
DECISION = "decision.json"


@dataclass(frozen=True)
class Judged:
    """The split whose questions decide a promotion."""

    name: str
    split: Output

    @property
    def questions(self) -> str:
        """The number of questions and the name of the split, in words."""
        return f"{self.split.facts['questions']} {self.name} questions"


@dataclass(frozen=True)
class Contest:
    """The two models of a promotion, the questions that decide it, and the decision."""

    challenger: Registered
    champion: Registered | None  # before the decision
    questions: str
    decision: Decision | None  # None: an earlier flow run decided it

    @property
    def sentence(self) -> str:
        """The decision in one line."""
        if self.decision is None:
            return f"{self.challenger.name}: nothing new to decide"
        verdict = "champion is now" if self.decision.promoted else "not promoted is"
        name = f"{self.challenger.name} version {self.challenger.version}"
        return f"{verdict} {name}, on {self.questions}: {self.decision.reason}"


def promote_best(splits: Splits, trained: Sequence[Output], rule: PromotionRule) -> Contest:
    """Promote the best trained variant to champion if the rule allows it.

    Champion and challenger are compared on the validation split if one is held out of the training
    data, otherwise on dev. A lock allows one promotion of a model at a time, so that a second
    promotion sees the champion of the first.
    """
    uri = settings().tracking_uri
    judged = (
        Judged("validation", splits.validation) if splits.validation else Judged("dev", splits.dev)
    )
    best = _best([registry.registered(uri, one.facts["model_uri"]) for one in trained], judged)
    lock = settings().root.resolve() / "locks" / f"promotion-{best.name}"
    with exclusive_lock(lock, on_wait=lambda: None):
        return _contest(uri, best, judged, rule)


def _best(models: Sequence[Registered], judged: Judged) -> Registered:
    scores = {model.version: _scored(model, judged).facts["f1"] for model in models}
    return max(models, key=lambda model: scores[model.version])


def _scored(model: Registered, judged: Judged) -> Output:
    return scoring(model.model_id, judged.split.folder)


def _contest(uri: str, challenger: Registered, judged: Judged, rule: PromotionRule) -> Contest:
    champion = registry.with_alias(uri, challenger.name, registry.CHAMPION)
    key = digest_of(
        [champion and champion.model_id, content_digest(judged.split.folder), rule.model_dump()]
    )
    is_champion = champion is not None and champion.version == challenger.version
    if is_champion or challenger.tags.get(KEY) == key:
        return Contest(challenger, champion, judged.questions, _decided_before(uri, challenger))
    decision = FIRST if champion is None else _compare(champion, challenger, judged, rule)
    # In this order, a run that is interrupted has always logged the numbers behind its changes.
    _write_down(uri, challenger.run_id, decision)
    registry.tag(uri, challenger, {REASON: decision.reason, FLOW_RUN: str(flow_run.id)})
    registry.challenge(uri, challenger)
    if decision.promoted:
        registry.crown(uri, challenger)
    registry.tag(uri, challenger, {KEY: key})
    return Contest(challenger, champion, judged.questions, decision)


def _write_down(uri: str, run_id: str, decision: Decision) -> None:
    runs.log_text(uri, run_id, "decision.md", markdown(decision))
    runs.log_text(uri, run_id, DECISION, json.dumps(decision.to_dict(), indent=1))


def _decided_before(uri: str, challenger: Registered) -> Decision | None:
    """The decision of an earlier attempt of this flow run, if it got that far."""
    if challenger.tags.get(FLOW_RUN) != str(flow_run.id):
        return None
    text = runs.read_text(uri, challenger.run_id, DECISION)
    return TypeAdapter(Decision).validate_json(text)


def _compare(
    champion: Registered, challenger: Registered, judged: Judged, rule: PromotionRule
) -> Decision:
    of_champion, of_challenger = _scored(champion, judged), _scored(challenger, judged)
    lexicon = Lexicon.load(of_challenger.folder / "model")
    slices = guarded_slices(load_split(judged.split.folder), lexicon)
    return decide(f1_of(of_champion.folder), f1_of(of_challenger.folder), slices, rule)
